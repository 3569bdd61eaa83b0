"""The next sizes of a Deployment's ReplicaSets within maxSurge and maxUnavailable; deterministic, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from plimsoll.embedded_cluster.api.json_documents import Json, at, uid_of
from plimsoll.embedded_cluster.controllers.pods import int_or_percent


@dataclass(frozen=True)
class Scaling:
    """The inputs of a rollout step."""

    wanted: int
    surge: int
    unavailable: int
    old: tuple[Json, ...]  # oldest first
    new: Json | None

    @classmethod
    def of(cls, deployment: Json, owned: list[Json], current: Json | None) -> Self:
        wanted = at(deployment, "spec", "replicas", default=1)
        rolling = at(deployment, "spec", "strategy", "rollingUpdate", default={})
        is_rolling = at(deployment, "spec", "strategy", "type") != "Recreate"
        surge = int_or_percent(rolling.get("maxSurge"), wanted, up=True) if is_rolling else 0
        unavailable = int_or_percent(rolling.get("maxUnavailable"), wanted, up=False) if is_rolling else 0
        if is_rolling and not surge and not unavailable:
            unavailable = 1  # otherwise the rollout could never progress
        new = uid_of(current) if current is not None else ""
        old = tuple(one for one in owned if uid_of(one) != new)
        return cls(wanted, surge, min(unavailable, wanted) if wanted else unavailable, old, current)

    @property
    def all(self) -> tuple[Json, ...]:
        return self.old if self.new is None else (*self.old, self.new)

    def first_size(self) -> int:
        """Initial size of a new ReplicaSet."""
        total = sum(map(size, self.old))
        return max(0, min(self.wanted, self.wanted + self.surge - total)) if total or self.surge else self.wanted


def size(replica_set: Json) -> int:
    replicas: int = at(replica_set, "spec", "replicas", default=0)
    return replicas


def _available(replica_set: Json) -> int:
    available: int = at(replica_set, "status", "availableReplicas", default=0)
    return available


def rolled_on(scaling: Scaling) -> list[tuple[Json, int]]:
    """Scale the new ReplicaSet up as far as surge allows, else the old ones down as far as availability allows."""
    new = scaling.new
    if new is None:
        return []
    if size(new) > scaling.wanted:
        return [(new, scaling.wanted)]
    if size(new) < scaling.wanted:
        room = scaling.wanted + scaling.surge - sum(map(size, scaling.all))
        grown = min(scaling.wanted, size(new) + max(0, room))
        if grown != size(new):
            return [(new, grown)]
    return _down_with_old(scaling, new)


def _down_with_old(scaling: Scaling, new: Json) -> list[tuple[Json, int]]:
    least = scaling.wanted - scaling.unavailable
    spare = sum(map(size, scaling.all)) - least - max(0, size(new) - _available(new))
    if spare <= 0:
        return []
    sizes = {uid_of(one): size(one) for one in scaling.old}
    for one in scaling.old:  # unavailable pods first
        broken = min(spare, sizes[uid_of(one)] - min(sizes[uid_of(one)], _available(one)))
        sizes[uid_of(one)] -= broken
        spare -= broken
    left = sum(map(_available, scaling.all)) - least
    for one in scaling.old:
        gone = max(0, min(left, spare, sizes[uid_of(one)]))
        sizes[uid_of(one)] -= gone
        left -= gone
        spare -= gone
    return [(one, sizes[uid_of(one)]) for one in scaling.old if sizes[uid_of(one)] != size(one)]


def scaled_in_proportion(scaling: Scaling, most_before: Mapping[str, int]) -> list[tuple[Json, int]]:
    """Proportional scaling of a Deployment that is paused or rolling out.

    `most_before`: the max-replicas annotation of each ReplicaSet.
    """
    running = [one for one in scaling.all if size(one)]
    if len(running) <= 1:
        one = running[0] if running else scaling.new or (scaling.old[-1] if scaling.old else None)
        return [] if one is None else [(one, scaling.wanted)]
    if scaling.new is not None and size(scaling.new) == scaling.wanted == _available(scaling.new):
        return [(one, 0) for one in scaling.old if size(one)]
    allowed = scaling.wanted + scaling.surge if scaling.wanted else 0
    change = allowed - sum(map(size, running))
    # Largest first.
    running.sort(key=lambda one: -size(one))
    sizes = {uid_of(one): size(one) for one in running}
    left = change
    for one in running:
        before = most_before.get(uid_of(one)) or sum(map(size, running))
        part = round(size(one) * allowed / before) - size(one)
        part = max(left, min(0, part)) if change < 0 else min(left, max(0, part))
        sizes[uid_of(one)] += part
        left -= part
    sizes[uid_of(running[0])] = max(0, sizes[uid_of(running[0])] + left)
    return [(one, sizes[uid_of(one)]) for one in running]
