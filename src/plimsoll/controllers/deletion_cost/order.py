"""What an order of deletion does to zones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from plimsoll.controllers.deletion_cost.algorithms.registry import Replica
from plimsoll.controllers.deletion_cost.replicaset_ranking import deletion_order
from plimsoll.controllers.deletion_cost.values import Whose
from plimsoll.kube.types.core import Node, Pod, ReplicaSet


def skew(pods_by_zone: Mapping[str, int]) -> int:
    """How many pods the fullest zone has more than the emptiest."""
    return max(pods_by_zone.values()) - min(pods_by_zone.values()) if pods_by_zone else 0


def skews(zones: Sequence[str]) -> list[int]:
    """The skew after each deletion, from none to all but the last, for the zones of the pods in the order of deletion."""
    left = Counter(zones)
    if not left:
        return []
    zones_with = Counter(left.values())  # how many zones have so many pods left
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
    """The least skew that any order of deletion reaches after each deletion: always one from a fullest zone.

    One order reaches all of them. Where the fullest zones have n pods, the largest count can only fall below n after each of
    them has lost one, so whoever takes a pod from anywhere else first is behind from then on.
    """
    order: list[str] = []
    for count in range(max(pods_by_zone.values(), default=0), 0, -1):
        order += [zone for zone, pods in pods_by_zone.items() if pods >= count]
    return skews(order)


def imbalance(zones: Sequence[str]) -> int:
    """How much further zones drift apart than deletion alone would have to let them, at the worst point of a scale-down."""
    return max((real - least for real, least in zip(skews(zones), least_skews(Counter(zones)), strict=True)), default=0)


# The order of deletion, told so that a person can read it.

# What puts a pod in its place, in the order in which Kubernetes asks.
Placed = Literal["no node", "not running", "not ready", "cost"]


class Departure(Struct, frozen=True):
    """One pod's place in the order."""

    pod: str
    node: str
    zone: str  # empty where nobody can tell
    cost: int | None  # once this decision is carried out; None where the pod carries none, which Kubernetes reads as 0
    whose: Whose
    placed_by: Placed
    rewritten: bool = False  # this decision changes its value


class DeletionOrder(Struct, frozen=True):
    """What a scale-down of one ReplicaSet deletes, the first to go first, once this decision is carried out."""

    replica_set: str
    departures: tuple[Departure, ...]
    imbalance: int  # how much further zones drift apart than they would have to, at the worst point; 0 is the promise


def order_of(
    replica_set: ReplicaSet,
    replicas: Sequence[Replica],
    *,
    planned: Mapping[str, int],
    zones: Mapping[str, str],
    company: Mapping[str, int],
    now: datetime,
) -> DeletionOrder:
    """`planned` are the values this decision writes, by pod UID; `zones` are zones by node; `company` counts pods by node."""
    by_uid = {replica.pod.uid: replica for replica in replicas}

    def cost(pod: Pod) -> int:
        return planned.get(pod.uid, by_uid[pod.uid].cost or 0)

    order = deletion_order([replica.pod for replica in replicas], cost, company, now)
    departures = []
    for pod in order:
        replica = by_uid[pod.uid]
        departures.append(
            Departure(
                pod=pod.name,
                node=pod.spec.node_name,
                zone=zones.get(pod.spec.node_name, ""),
                cost=planned.get(pod.uid, replica.cost),
                whose="ours" if pod.uid in planned else replica.whose,
                placed_by=_placed_by(replica),
                rewritten=pod.uid in planned,
            )
        )
    zones_leaving = [d.zone for d in departures if d.placed_by == "cost" and d.zone]
    return DeletionOrder(replica_set.name, tuple(departures), imbalance(zones_leaving))


def zones_of(nodes: Mapping[str, Node], label: str) -> dict[str, str]:
    return {name: zone for name, node in nodes.items() if (zone := node.labels.get(label))}


def _placed_by(replica: Replica) -> Placed:
    if replica.decided_by_cost:
        return "cost"
    if not replica.pod.spec.node_name:
        return "no node"
    return "not running" if replica.pod.status.phase != "Running" else "not ready"
