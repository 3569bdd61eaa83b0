"""From the values that an algorithm asks for to the writes that this decision makes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal

from msgspec import Struct

from plimsoll.decision import Blocker, Patch, Reason, Ref
from plimsoll.deletion_cost.algorithms import Replica
from plimsoll.deletion_cost.pace import rewrites_left, unsettled
from plimsoll.deletion_cost.spec import HIGHEST_COST, LOWEST_COST
from plimsoll.deletion_cost.values import Value, written
from plimsoll.deletion_cost.workload import ReplicaSetPods, Seen
from plimsoll.kube.resources import PODS
from plimsoll.kube.types import Pod

Kind = Literal["first", "renewed", "restored", "rewritten"]


class Write(Struct, frozen=True):
    pod: Pod
    cost: int
    kind: Kind
    before: int | None

    @property
    def limited(self) -> bool:
        """A first value, or new settings, happen once. Holes and quarrels with others could go on for ever."""
        return self.kind in ("rewritten", "restored")


class Writes(Struct, frozen=True):
    """What is written now, and why the rest is not."""

    now: tuple[Write, ...]
    blockers: tuple[Blocker, ...]
    look_again: timedelta | None

    @property
    def costs(self) -> dict[str, int]:
        return {write.pod.uid: write.cost for write in self.now}


def wanted_writes(its: ReplicaSetPods, costs: Mapping[str, int]) -> list[Write]:
    """Where an algorithm's answer differs from what is there. Someone else's value stays, whatever the algorithm says.

    Raises LookupError or ValueError if the answer makes no sense.
    """
    by_uid = {replica.pod.uid: replica for replica in its.replicas}
    writes = []
    for uid, cost in costs.items():
        if uid not in by_uid:
            raise LookupError(f"{uid} is the UID of none of the pods that were given")
        replica = by_uid[uid]
        if not (isinstance(cost, int) and LOWEST_COST <= cost <= HIGHEST_COST):
            raise ValueError(f"{cost!r} for pod {replica.pod.name} is no int32")
        if replica.whose != "foreign" and replica.cost != cost:
            writes.append(Write(replica.pod, cost, _kind(replica.value), _before(replica)))
    return writes


def paced(seen: Seen, wanted: list[list[Write]], per_minute: int) -> Writes:
    """What of it may be written now; `wanted` has a list for each ReplicaSet."""
    marks = (replica.value.mark for replica in seen.replicas if replica.value.mark is not None)
    left, more_at = rewrites_left(marks, per_minute, seen.now)
    writes: list[Write] = []
    blockers: list[Blocker] = []
    for its, its_writes in zip(seen.sets, wanted, strict=True):
        writes += [write for write in its_writes if not write.limited]
        limited = [write for write in its_writes if write.limited]
        if not limited:
            continue
        changing = unsettled(its.replica_set, [replica.pod for replica in its.replicas], seen.now)
        if changing is not None:
            blockers.append(changing)
            continue
        writes += limited[:left]
        if len(limited) > left:
            excess = f"{len(limited) - left} values of ReplicaSet {its.replica_set.name} wait to be rewritten"
            blockers.append(Blocker("RewriteLimit", f"{excess}: the limit is {per_minute} a minute", more_at))
        left -= min(left, len(limited))
    until = min((blocker.until for blocker in blockers if blocker.until is not None), default=None)
    return Writes(tuple(writes), tuple(blockers), until - seen.now if until is not None else None)


def patch(write: Write, seen: Seen) -> Patch:
    """Refused if anyone has written to the pod since the view saw it: it might have been a value of their own."""
    cost, name = write.cost, write.pod.name
    why = {
        "first": Reason("FirstValue", f"pod {name} gets {cost}"),
        "renewed": Reason("SettingsChanged", f"pod {name} gets {cost}: {write.before} was made for other settings"),
        "restored": Reason("ValueRestored", f"pod {name} gets {cost}: someone took its value away"),
        "rewritten": Reason("HoleClosed", f"pod {name} gets {cost} instead of {write.before}"),
    }[write.kind]
    body = written(cost, seen.settings, rewritten=seen.now if write.limited else None)
    return Patch(Ref.to(PODS, write.pod), body, why, form="strategic", brief=True)


def _kind(value: Value) -> Kind:
    if value.whose == "ours":
        return "rewritten"
    if value.outdated is not None:
        return "renewed"
    return "restored" if value.taken_away else "first"


def _before(replica: Replica) -> int | None:
    return replica.value.outdated if replica.cost is None else replica.cost
