"""The algorithm `zone`: a scale-down takes from the fullest zone, at every step of the way.

A zone is the set of nodes with the same value of the label `spread-by`. In each zone of a ReplicaSet the pods hold the values
from the ceiling down, so deleting from the lowest value up levels the zones. A pod gets the first value that is free in its
zone, once; only when pods have come and gone so that a scale-down would be uneven, the fewest values are rewritten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import count

from plimsoll.controllers.deletion_cost.algorithms.registry import AssignSettings, Replica
from plimsoll.controllers.deletion_cost.replicaset_ranking import deletion_order
from plimsoll.controllers.deletion_cost.rewrites import ZoneValues, fewest_rewrites
from plimsoll.kube.types.core import Deployment, Node, Pod


class Zone:
    name = "zone"

    def assign(
        self,
        workload: Deployment,  # noqa: ARG002 - part of the protocol
        pods: Sequence[Replica],
        nodes: Mapping[str, Node],
        settings: AssignSettings,
    ) -> Mapping[str, int]:
        zones = _by_zone(pods, nodes, settings.spread_by)
        company = Counter(replica.pod.spec.node_name for replica in pods)
        first: dict[str, int] = {}
        for replicas in zones.values():
            newcomers = [r for r in replicas if r.whose == "nobody" and r.decided_by_cost]
            used = {r.cost for r in replicas if r.cost is not None}
            free = (value for value in count(settings.ceiling, -1) if value not in used)
            for replica in _last_to_go_first(newcomers, company, settings.now):
                first[replica.pod.uid] = max(next(free), 0)
        if first:
            return first  # holes are looked at once every pod has a value: a newcomer may have filled them
        return fewest_rewrites({zone: _values(replicas) for zone, replicas in zones.items()}, settings.ceiling)


def _by_zone(pods: Sequence[Replica], nodes: Mapping[str, Node], label: str) -> dict[str, list[Replica]]:
    """Pods whose zone nobody can tell (no node yet, node gone, label missing) are in none, and are left alone."""
    zones: dict[str, list[Replica]] = {}
    for replica in pods:
        node = nodes.get(replica.pod.spec.node_name)
        if node is not None and (zone := node.labels.get(label)):
            zones.setdefault(zone, []).append(replica)
    return zones


def _last_to_go_first(replicas: Sequence[Replica], company: Mapping[str, int], now: datetime) -> list[Replica]:
    """Kubernetes' own order, turned round: within a zone its preferences stand, and so does an order that we gave earlier."""
    by_uid = {replica.pod.uid: replica for replica in replicas}

    def earlier_cost(pod: Pod) -> int:
        return by_uid[pod.uid].value.outdated or 0

    order = deletion_order([replica.pod for replica in replicas], earlier_cost, company, now)
    return [by_uid[pod.uid] for pod in reversed(order)]


def _values(replicas: Sequence[Replica]) -> ZoneValues:
    """What decides about a scale-down now: pods that go first whatever they carry are not in it."""
    ours: dict[str, int] = {}
    fixed: list[int] = []
    for replica in replicas:
        if replica.cost is None or not replica.decided_by_cost:
            continue
        if replica.whose == "ours":
            ours[replica.pod.uid] = replica.cost
        else:
            fixed.append(replica.cost)
    return ZoneValues(ours, tuple(fixed))
