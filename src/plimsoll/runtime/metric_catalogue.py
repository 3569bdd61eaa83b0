"""The metrics of controllers and webhook: name, type, labels and help text, for `/metrics` and for the generated reference.

Names of Spotalis and of the VPSie autoscaler are kept, so that existing dashboards keep working.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct


class MetricType(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class MetricSpec(Struct, frozen=True):
    type: MetricType
    text: str
    labels: tuple[str, ...] = ()


_WORKLOAD = ("namespace", "workload", "workload_type")
_GROUP = ("nodegroup", "namespace")


def _counter(text: str, *labels: str) -> MetricSpec:
    return MetricSpec(MetricType.COUNTER, text, labels)


def _gauge(text: str, *labels: str) -> MetricSpec:
    return MetricSpec(MetricType.GAUGE, text, labels)


def _histogram(text: str, *labels: str) -> MetricSpec:
    return MetricSpec(MetricType.HISTOGRAM, text, labels)


CATALOGUE: Mapping[str, MetricSpec] = {
    # placement
    "spotalis_workload_replicas": _gauge("Replicas of a managed workload on each class of node", *_WORKLOAD, "replica_type"),
    "plimsoll_placement_target_replicas": _gauge(
        "Target number of replicas of a managed workload on each class of node", *_WORKLOAD, "replica_type"
    ),
    "spotalis_reconciliations_total": _counter(
        "Reconciles of a managed workload, by next action and by whether it was blocked", *_WORKLOAD, "action", "result"
    ),
    "spotalis_reconciliation_errors_total": _counter(
        "Invalid annotations, counted once per change of the object", *_WORKLOAD, "error_type"
    ),
    "spotalis_rebalancing_blocked_by_pdb_total": _counter(
        "Moves that a PodDisruptionBudget did not allow", *_WORKLOAD, "pdb_name"
    ),
    # the webhook
    "spotalis_webhook_requests_total": _counter(
        "Admission reviews of pods, by result", "operation", "resource_kind", "result"
    ),
    "spotalis_webhook_mutations_total": _counter(
        "Pods to which the webhook assigned a class", "resource_kind", "mutation_type"
    ),
    "plimsoll_admission_live_reads_total": _counter(
        "Live reads that an admission review waited for, by what was read", "what", "result"
    ),
    "plimsoll_admission_forwards_total": _counter("Admission reviews that a follower forwarded to the leader", "result"),
    # deletion cost
    "plimsoll_deletion_cost_covered_pods": _gauge("Pods with a deletion cost written by the operator", "namespace", "workload"),
    "plimsoll_deletion_cost_imbalance": _gauge(
        "Avoidable difference between zones in pods, at the worst replica count of a scale-down", "namespace", "workload"
    ),
    # node groups
    "vpsie_autoscaler_scaling_decisions_total": _counter(
        "Decisions to add or remove nodes", *_GROUP, "decision", "reason"
    ),
    "vpsie_autoscaler_scale_up_total": _counter("Scale-ups of a node group", *_GROUP),
    "vpsie_autoscaler_scale_up_failed_total": _counter("Machines that could not be created or did not join", *_GROUP, "reason"),
    "vpsie_autoscaler_scale_down_total": _counter("Nodes whose removal started", *_GROUP),
    "vpsie_autoscaler_scale_down_blocked_total": _counter("Nodes not removed, by the check that blocked it", *_GROUP, "reason"),
    "vpsie_autoscaler_node_provisioning_duration_seconds": _histogram(
        "Time from ordering a machine until its node is ready", *_GROUP
    ),
    "vpsie_autoscaler_node_drain_duration_seconds": _histogram(
        "Time from the taint until the last pod is gone", *_GROUP
    ),
    "vpsie_autoscaler_nodegroup_desired_nodes": _gauge("Desired nodes of a group", *_GROUP),
    "vpsie_autoscaler_nodegroup_current_nodes": _gauge("Nodes of a group, including those being created", *_GROUP),
    "vpsie_autoscaler_nodegroup_provider_error": _gauge("1 while the provider of a group cannot be used", *_GROUP),
    "vpsie_autoscaler_nodegroup_ready_nodes": _gauge("Ready nodes of a group", *_GROUP),
    "vpsie_autoscaler_nodegroup_min_nodes": _gauge("Minimum nodes of a group", *_GROUP),
    "vpsie_autoscaler_nodegroup_max_nodes": _gauge("Maximum nodes of a group", *_GROUP),
    "vpsie_autoscaler_vpsienode_phase": _gauge("Machines of a group, by phase", *_GROUP, "phase"),
    # allocation
    "plimsoll_allocation_drives": _gauge("Drives of a node that containers can use", "node"),
    "plimsoll_allocation_drives_free": _gauge("Free drives of a node", "node"),
    "plimsoll_allocation_shared_free_gib": _gauge("Free capacity on the shared drives of a node, in GiB", "node"),
    "plimsoll_allocation_proposals": _gauge("Proposals on a node that are not committed yet", "node"),
}  # fmt: skip


def help_text(name: str) -> str:
    """The help text of a metric. For a plug-in's metric, which is not declared here, it is derived from the name."""
    declared = CATALOGUE.get(name)
    return declared.text if declared is not None else name.removesuffix("_total").replace("_", " ")
