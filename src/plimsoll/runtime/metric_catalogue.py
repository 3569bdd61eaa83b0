"""What decisions and the webhook measure: every name with its labels and what it tells, for `/metrics` and for the reference.

Spotalis' and the VPSie autoscaler's names are kept, so that dashboards which ask for them go on working.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct


class MetricType(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Declared(Struct, frozen=True):
    type: MetricType
    text: str
    labels: tuple[str, ...] = ()


_WORKLOAD = ("namespace", "workload", "workload_type")
_GROUP = ("nodegroup", "namespace")


def _counter(text: str, *labels: str) -> Declared:
    return Declared(MetricType.COUNTER, text, labels)


def _gauge(text: str, *labels: str) -> Declared:
    return Declared(MetricType.GAUGE, text, labels)


def _histogram(text: str, *labels: str) -> Declared:
    return Declared(MetricType.HISTOGRAM, text, labels)


CATALOGUE: Mapping[str, Declared] = {
    # placement
    "spotalis_workload_replicas": _gauge("Replicas of a managed workload on each class of node", *_WORKLOAD, "replica_type"),
    "plimsoll_placement_target_replicas": _gauge(
        "Replicas of a managed workload that belong on each class of node", *_WORKLOAD, "replica_type"
    ),
    "spotalis_reconciliations_total": _counter(
        "Looks at a managed workload, by its next action and whether something blocked it", *_WORKLOAD, "action", "result"
    ),
    "spotalis_reconciliation_errors_total": _counter(
        "Annotations that cannot be followed, once for each change of the object", *_WORKLOAD, "error_type"
    ),
    "spotalis_rebalancing_blocked_by_pdb_total": _counter(
        "Moves that a PodDisruptionBudget did not allow when they were due", *_WORKLOAD, "pdb_name"
    ),
    # the webhook
    "spotalis_webhook_requests_total": _counter(
        "Pods that the API server asked about, by what was answered", "operation", "resource_kind", "result"
    ),
    "spotalis_webhook_mutations_total": _counter(
        "Pods that were given a class", "resource_kind", "mutation_type"
    ),
    "plimsoll_admission_live_reads_total": _counter(
        "Reads past the view that an answer waited for, by what was read", "what", "result"
    ),
    "plimsoll_admission_forwards_total": _counter("Questions that a follower passed on to the leader", "result"),
    # deletion cost
    "plimsoll_deletion_cost_covered_pods": _gauge("Pods that carry a value of ours", "namespace", "workload"),
    "plimsoll_deletion_cost_imbalance": _gauge(
        "By how many pods zones would differ more than they must, at the worst size of a scale-down", "namespace", "workload"
    ),
    # node groups
    "vpsie_autoscaler_scaling_decisions_total": _counter(
        "Decisions to add or remove nodes", *_GROUP, "decision", "reason"
    ),
    "vpsie_autoscaler_scale_up_total": _counter("Times that a group was given more nodes", *_GROUP),
    "vpsie_autoscaler_scale_up_failed_total": _counter("Machines that could not be had, or never joined", *_GROUP, "reason"),
    "vpsie_autoscaler_scale_down_total": _counter("Nodes whose removal was begun", *_GROUP),
    "vpsie_autoscaler_scale_down_blocked_total": _counter("Nodes that had to stay, by the check that said so", *_GROUP, "reason"),
    "vpsie_autoscaler_node_provisioning_duration_seconds": _histogram(
        "From asking for a machine to its node being ready", *_GROUP
    ),
    "vpsie_autoscaler_node_drain_duration_seconds": _histogram(
        "From the taint to the last pod having left", *_GROUP
    ),
    "vpsie_autoscaler_nodegroup_desired_nodes": _gauge("Nodes that a group should have", *_GROUP),
    "vpsie_autoscaler_nodegroup_current_nodes": _gauge("Nodes that a group has, those on their way included", *_GROUP),
    "vpsie_autoscaler_nodegroup_ready_nodes": _gauge("Nodes of a group that are ready", *_GROUP),
    "vpsie_autoscaler_nodegroup_min_nodes": _gauge("The least that a group may have", *_GROUP),
    "vpsie_autoscaler_nodegroup_max_nodes": _gauge("The most that a group may have", *_GROUP),
    "vpsie_autoscaler_vpsienode_phase": _gauge("Machines of a group in each phase", *_GROUP, "phase"),
    # allocation
    "plimsoll_allocation_drives": _gauge("Drives of a node that containers may hold", "node"),
    "plimsoll_allocation_drives_free": _gauge("Drives of a node that nobody holds", "node"),
    "plimsoll_allocation_shared_free_gib": _gauge("Room on the shared drives of a node, in GiB", "node"),
    "plimsoll_allocation_proposals": _gauge("Proposals on a node that are not committed yet", "node"),
}  # fmt: skip


def text_of(name: str) -> str:
    """What a metric tells; plug-ins may bring names of their own, which speak for themselves."""
    declared = CATALOGUE.get(name)
    return declared.text if declared is not None else name.removesuffix("_total").replace("_", " ")
