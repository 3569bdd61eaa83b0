"""Histories of a workload on spot and on-demand nodes in three zones, and three ways to order its deletions.

Admission gives each new replica its class exactly; the scheduler takes the emptiest zone four times out of five. What is
measured is what a scale-down leaves behind: replicas on the wrong class, which someone must move afterwards, and zones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Protocol

from plimsoll.controllers.deletion_cost.algorithms.registry import AssignSettings
from plimsoll.controllers.deletion_cost.algorithms.registry import ValuedPod as Holder
from plimsoll.controllers.deletion_cost.spec import DEFAULT_SPREAD_BY, HIGHEST_COST
from plimsoll.controllers.deletion_cost.values import DeletionValue
from plimsoll.controllers.placement.deletion_order import Capacity
from plimsoll.controllers.placement.rebalance.next_action import ReplicaState
from plimsoll.controllers.placement.spec import ENABLED, MIN_ON_DEMAND, SPOT_PERCENTAGE
from plimsoll.controllers.placement.target import CapacityClass, Share, target
from plimsoll.kube.codec import convert
from plimsoll.kube.types import apps, core, meta

SPOT, ON_DEMAND = CapacityClass.SPOT, CapacityClass.ON_DEMAND
ZONES = ("a", "b", "c")
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class ValuedPod:
    number: int  # the higher, the younger
    capacity_class: CapacityClass
    zone: str
    cost: int | None = None


class Writer(Protocol):
    name: str
    writes: int

    def look(self, replicas: list[ValuedPod], share: Share) -> None: ...


class KubernetesAlone:
    name = "Kubernetes alone"

    def __init__(self) -> None:
        self.writes = 0

    def look(self, replicas: list[ValuedPod], share: Share) -> None: ...


class ByZone:
    """The reference algorithm: the first value that is free in the zone, from the top down, once."""

    name = "by zone (reference)"

    def __init__(self) -> None:
        self.writes = 0

    def look(self, replicas: list[ValuedPod], share: Share) -> None:  # noqa: ARG002 - part of the protocol
        for replica in replicas:
            if replica.cost is None:
                used = {other.cost for other in replicas if other.zone == replica.zone}
                value = HIGHEST_COST
                while value in used:
                    value -= 1
                replica.cost = value
                self.writes += 1


class ByCapacity:
    name = "capacity"

    def __init__(self) -> None:
        self.writes = 0
        self._algorithm = Capacity()
        self._nodes = {
            f"{kind.value}-{zone}": convert(
                {
                    "metadata": {
                        "name": f"{kind.value}-{zone}",
                        "labels": {DEFAULT_SPREAD_BY: zone, "karpenter.sh/capacity-type": kind.value},
                    }
                },
                core.Node,
            )
            for kind in CapacityClass
            for zone in ZONES
        }

    def look(self, replicas: list[ValuedPod], share: Share) -> None:
        asked = {ENABLED: "true", SPOT_PERCENTAGE: f"{share.spot_percentage}%", MIN_ON_DEMAND: str(share.min_on_demand)}
        workload = apps.Deployment(meta.Metadata(name="web", namespace="default", annotations=asked))
        for _ in range(3):
            holders = [Holder.of(self._pod(replica), _value(replica.cost)) for replica in replicas]
            terms = AssignSettings(DEFAULT_SPREAD_BY, HIGHEST_COST, _NOW)
            answer = self._algorithm.assign(workload, holders, self._nodes, terms)
            if not answer:
                return
            for replica in replicas:
                if str(replica.number) in answer:
                    replica.cost = answer[str(replica.number)]
                    self.writes += 1

    def _pod(self, replica: ValuedPod) -> core.Pod:
        ready = meta.Condition("Ready", "True", last_transition_time=_NOW)
        return core.Pod(
            meta.Metadata(name=f"web-{replica.number}", namespace="default", uid=str(replica.number)),
            core.PodSpec(node_name=f"{replica.capacity_class.value}-{replica.zone}"),
            core.PodStatus(phase="Running", conditions=(ready,)),
        )


def _value(cost: int | None) -> DeletionValue:
    return DeletionValue("nobody") if cost is None else DeletionValue("ours", cost)


WRITERS: tuple[Callable[[], Writer], ...] = (KubernetesAlone, ByZone, ByCapacity)


@dataclass
class Tally:
    """What scale-downs left behind."""

    stops: int = 0
    off_target: int = 0  # stops at which the share was not what it should be
    migrations: int = 0  # replicas that must be moved afterwards
    below_minimum: int = 0
    uneven: int = 0  # stops with zones that differ by more than one
    writes: int = 0
    replicas: int = 0
    seeds: list[int] = field(default_factory=list)

    def add(self, replicas: list[ValuedPod], share: Share, seed: int) -> None:
        self.stops += 1
        wanted = target(len(replicas), share)
        spot = sum(1 for replica in replicas if replica.capacity_class is SPOT)
        wrong = abs(spot - wanted.spot)
        self.off_target += wrong > 0
        self.migrations += wrong
        self.below_minimum += len(replicas) - spot < min(share.min_on_demand, len(replicas))
        zones = Counter(dict.fromkeys(ZONES, 0))
        zones.update(replica.zone for replica in replicas)
        self.uneven += max(zones.values()) - min(zones.values()) > 1
        if wrong and len(self.seeds) < 5:
            self.seeds.append(seed)


def live(seed: int, writer: Writer, tally: Tally) -> None:
    """One history: the same happenings for every writer, though what they hit may differ."""
    rng, luck = Random(seed), Random(seed + 1)
    share = Share(rng.randint(0, 4), rng.randrange(0, 101, 5))
    replicas: list[ValuedPod] = []
    serial = 0

    def fill(count: int) -> None:
        nonlocal serial
        while len(replicas) < count:
            serial += 1
            split = Counter(replica.capacity_class for replica in replicas)
            kind = ReplicaState(split[SPOT], split[ON_DEMAND], target(count, share)).next_class()
            zones = Counter(dict.fromkeys(ZONES, 0))
            zones.update(replica.zone for replica in replicas)
            emptiest = min(ZONES, key=lambda zone: (zones[zone], luck.random()))
            replicas.append(ValuedPod(serial, kind, emptiest if luck.random() < 0.8 else luck.choice(ZONES)))
        writer.look(replicas, share)

    fill(rng.randint(6, 24))
    for _ in range(rng.randint(4, 10)):
        happening = rng.randrange(4)
        if happening == 0 and len(replicas) > 1:  # a replica is lost and replaced
            count = len(replicas)
            replicas.pop(rng.randrange(count))
            fill(count)
        elif happening == 1:  # a spot node is reclaimed with all of its replicas
            count, zone = len(replicas), rng.choice(ZONES)
            replicas[:] = [r for r in replicas if (r.capacity_class, r.zone) != (SPOT, zone)]
            fill(count)
        elif happening == 2:
            fill(min(30, len(replicas) + rng.randint(1, 10)))
        elif len(replicas) > 1:
            count = rng.randint(1, len(replicas) - 1)
            # Lowest value first; between equal ones the youngest, as for pods of different age.
            replicas.sort(key=lambda r: (r.cost or 0, -r.number))
            del replicas[: len(replicas) - count]
            tally.add(replicas, share, seed)
            _mend(replicas, share, luck)
            writer.look(replicas, share)
    tally.writes += writer.writes
    tally.replicas += serial


def _mend(replicas: list[ValuedPod], share: Share, luck: Random) -> None:
    """What was off is moved, so that every history starts its next step from the target."""
    wanted = target(len(replicas), share)
    while (spot := sum(r.capacity_class is SPOT for r in replicas)) != wanted.spot:
        surplus = SPOT if spot > wanted.spot else ON_DEMAND
        moved = luck.choice([replica for replica in replicas if replica.capacity_class is surplus])
        moved.capacity_class, moved.cost = (ON_DEMAND if surplus is SPOT else SPOT), None
