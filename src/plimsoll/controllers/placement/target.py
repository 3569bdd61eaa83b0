"""How many replicas belong on spot, and which class the k-th replica has."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class CapacityClass(Enum):
    SPOT = "spot"
    ON_DEMAND = "on-demand"


class Rounding(Enum):
    """Of the spot share. Down favours stability over cost, and is what both documents' examples come to."""

    DOWN = "down"
    UP = "up"


class Share(Struct, frozen=True):
    """What a workload asks for: never fewer than `min_on_demand`, then this percentage on spot."""

    min_on_demand: int = 0
    spot_percentage: int = 0
    rounding: Rounding = Rounding.DOWN


class Target(Struct, frozen=True):
    spot: int
    on_demand: int

    @property
    def total(self) -> int:
        return self.spot + self.on_demand


def target(replicas: int, share: Share) -> Target:
    """The split of `replicas`. A minimum above the count makes all of them on-demand: reliability before cost."""
    wanted = replicas * share.spot_percentage
    rounded = -(-wanted // 100) if share.rounding is Rounding.UP else wanted // 100
    spot = max(0, min(rounded, replicas - share.min_on_demand))
    return Target(spot, replicas - spot)


def class_at(position: int, share: Share) -> CapacityClass:
    """The class of the replica at `position`, counted from 0, for which no size of the workload needs a migration.

    The spot target grows by at most one a step, so exactly one new replica takes each step up: the first T positions hold
    exactly `target(T)`, at every T.
    """
    grows = target(position + 1, share).spot > target(position, share).spot
    return CapacityClass.SPOT if grows else CapacityClass.ON_DEMAND
