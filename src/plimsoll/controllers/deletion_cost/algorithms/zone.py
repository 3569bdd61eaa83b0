"""The algorithm `zone`: a scale-down deletes from the fullest zone at every step.

A zone is the set of nodes with the same value of the label `spread-by`. In each zone of a ReplicaSet the pods have the
values from the ceiling down, so deletion in ascending order levels the zones. A pod gets the first free value of its zone, once.
Only if pods were created and deleted so that a scale-down would be uneven, the fewest possible values are rewritten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import count

from plimsoll.controllers.deletion_cost.algorithms.registry import AssignSettings, ValuedPod
from plimsoll.controllers.deletion_cost.replicaset_ranking import deletion_order
from plimsoll.controllers.deletion_cost.rewrites import ZoneValues, fewest_rewrites
from plimsoll.kube.types.apps import Deployment
from plimsoll.kube.types.core import Node, Pod


class Zone:
    name = "zone"

    def assign(
        self,
        workload: Deployment,  # noqa: ARG002 - part of the protocol
        pods: Sequence[ValuedPod],
        nodes: Mapping[str, Node],
        settings: AssignSettings,
    ) -> Mapping[str, int]:
        zones = _by_zone(pods, nodes, settings.spread_by)
        pods_by_node = Counter(replica.pod.spec.node_name for replica in pods)
        first: dict[str, int] = {}
        for replicas in zones.values():
            new_pods = [r for r in replicas if r.value_owner == "nobody" and r.decided_by_cost]
            used = {r.cost for r in replicas if r.cost is not None}
            free = (value for value in count(settings.ceiling, -1) if value not in used)
            for replica in _last_to_go_first(new_pods, pods_by_node, settings.now):
                first[replica.pod.uid] = max(next(free), 0)
        if first:
            return first  # rewrites wait until every pod has a value: a new pod may have closed the gap
        return fewest_rewrites({zone: _values(replicas) for zone, replicas in zones.items()}, settings.ceiling)


def _by_zone(pods: Sequence[ValuedPod], nodes: Mapping[str, Node], label: str) -> dict[str, list[ValuedPod]]:
    """Pods by zone. Pods of unknown zone (no node yet, node gone, label missing) are left out."""
    zones: dict[str, list[ValuedPod]] = {}
    for replica in pods:
        node = nodes.get(replica.pod.spec.node_name)
        if node is not None and (zone := node.labels.get(label)):
            zones.setdefault(zone, []).append(replica)
    return zones


def _last_to_go_first(replicas: Sequence[ValuedPod], pods_by_node: Mapping[str, int], now: datetime) -> list[ValuedPod]:
    """The reverse of Kubernetes' own order, with our earlier values: within a zone both stay in force."""
    by_uid = {replica.pod.uid: replica for replica in replicas}

    def earlier_cost(pod: Pod) -> int:
        return by_uid[pod.uid].value.outdated or 0

    order = deletion_order([replica.pod for replica in replicas], earlier_cost, pods_by_node, now)
    return [by_uid[pod.uid] for pod in reversed(order)]


def _values(replicas: Sequence[ValuedPod]) -> ZoneValues:
    """The values that decide a scale-down. Pods that are deleted first whatever their value are left out."""
    ours: dict[str, int] = {}
    fixed: list[int] = []
    for replica in replicas:
        if replica.cost is None or not replica.decided_by_cost:
            continue
        if replica.value_owner == "ours":
            ours[replica.pod.uid] = replica.cost
        else:
            fixed.append(replica.cost)
    return ZoneValues(ours, tuple(fixed))
