"""The order of deletion, told so that a person can read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from plimsoll.deletion_cost.algorithms import Replica
from plimsoll.deletion_cost.balance import imbalance
from plimsoll.deletion_cost.ranking import deletion_order
from plimsoll.deletion_cost.values import Whose
from plimsoll.kube.types import Node, Pod, ReplicaSet

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
