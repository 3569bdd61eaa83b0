"""The deletion order of a ReplicaSet, and how uneven it leaves the zones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from plimsoll.controllers.deletion_cost.algorithms.registry import ValuedPod
from plimsoll.controllers.deletion_cost.replicaset_ranking import deletion_order
from plimsoll.controllers.deletion_cost.values import ValueOwner
from plimsoll.kube.types.apps import ReplicaSet
from plimsoll.kube.types.core import Node, Pod


def skew(pods_by_zone: Mapping[str, int]) -> int:
    """The difference between the fullest and the emptiest zone, in pods."""
    return max(pods_by_zone.values()) - min(pods_by_zone.values()) if pods_by_zone else 0


def skews(zones: Sequence[str]) -> list[int]:
    """The skew before the first deletion and after each but the last; `zones` are the zones of the pods in deletion order."""
    left = Counter(zones)
    if not left:
        return []
    zones_with = Counter(left.values())  # by number of pods left: how many zones have that many
    fullest, emptiest = max(left.values()), min(left.values())
    course = [fullest - emptiest]
    for zone in zones[:-1]:
        zones_with[left[zone]] -= 1
        left[zone] -= 1
        zones_with[left[zone]] += 1
        emptiest = min(emptiest, left[zone])
        while not zones_with[fullest]:
            fullest -= 1
        course.append(fullest - emptiest)
    return course


def least_skews(pods_by_zone: Mapping[str, int]) -> list[int]:
    """The least skew that any deletion order reaches after each deletion: always delete from a fullest zone.

    One order reaches all of them. If the fullest zones have n pods, the largest count can only fall below n after each of
    them has lost one, so an order that deletes from another zone first stays behind.
    """
    order: list[str] = []
    for count in range(max(pods_by_zone.values(), default=0), 0, -1):
        order += [zone for zone, pods in pods_by_zone.items() if pods >= count]
    return skews(order)


def imbalance(zones: Sequence[str]) -> int:
    """How much larger the skew is than necessary, at the worst point of a scale-down."""
    return max((real - least for real, least in zip(skews(zones), least_skews(Counter(zones)), strict=True)), default=0)


# The criterion that decides the position of a pod, in the order in which Kubernetes applies them.
DecidedBy = Literal["no node", "not running", "not ready", "cost"]


class DeletionEntry(Struct, frozen=True):
    """One pod in the deletion order."""

    pod: str
    node: str
    zone: str  # empty if unknown
    cost: int | None  # after this decision; None: no value, which Kubernetes treats as 0
    value_owner: ValueOwner
    placed_by: DecidedBy
    rewritten: bool = False  # this decision changes its value


class DeletionOrder(Struct, frozen=True):
    """What a scale-down of one ReplicaSet deletes, in order, after this decision is carried out."""

    replica_set: str
    departures: tuple[DeletionEntry, ...]
    imbalance: int  # see `imbalance`; 0 is the goal


def order_of(
    replica_set: ReplicaSet,
    replicas: Sequence[ValuedPod],
    *,
    planned: Mapping[str, int],
    zones: Mapping[str, str],
    pods_by_node: Mapping[str, int],
    now: datetime,
) -> DeletionOrder:
    """planned: the values that this decision writes, by pod UID. zones: by node. pods_by_node: see `pods_on_nodes`."""
    by_uid = {replica.pod.uid: replica for replica in replicas}

    def cost(pod: Pod) -> int:
        return planned.get(pod.uid, by_uid[pod.uid].cost or 0)

    order = deletion_order([replica.pod for replica in replicas], cost, pods_by_node, now)
    departures = []
    for pod in order:
        replica = by_uid[pod.uid]
        departures.append(
            DeletionEntry(
                pod=pod.name,
                node=pod.spec.node_name,
                zone=zones.get(pod.spec.node_name, ""),
                cost=planned.get(pod.uid, replica.cost),
                value_owner="ours" if pod.uid in planned else replica.value_owner,
                placed_by=_placed_by(replica),
                rewritten=pod.uid in planned,
            )
        )
    zones_in_order = [d.zone for d in departures if d.placed_by == "cost" and d.zone]
    return DeletionOrder(replica_set.name, tuple(departures), imbalance(zones_in_order))


def zones_of(nodes: Mapping[str, Node], label: str) -> dict[str, str]:
    return {name: zone for name, node in nodes.items() if (zone := node.labels.get(label))}


def _placed_by(replica: ValuedPod) -> DecidedBy:
    if replica.decided_by_cost:
        return "cost"
    if not replica.pod.spec.node_name:
        return "no node"
    return "not running" if replica.pod.status.phase != "Running" else "not ready"
