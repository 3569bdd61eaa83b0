"""The split of a replica count into spot and on-demand (seeds/000 and 001)."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class CapacityClass(Enum):
    SPOT = "spot"
    ON_DEMAND = "on-demand"


class Rounding(Enum):
    """Rounding of the spot share. Down favours stability over cost; every example of the specifications agrees with it."""

    DOWN = "down"
    UP = "up"


class Share(Struct, frozen=True):
    """What a workload asks for: at least `min_on_demand` replicas on-demand, then this percentage on spot."""

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
    """The split of `replicas`. With a minimum above the count all of them are on-demand."""
    wanted = replicas * share.spot_percentage
    rounded = -(-wanted // 100) if share.rounding is Rounding.UP else wanted // 100
    spot = max(0, min(rounded, replicas - share.min_on_demand))
    return Target(spot, replicas - spot)


def class_at(position: int, share: Share) -> CapacityClass:
    """The class of the replica at `position` (from 0) with which no size of the workload needs a migration.

    The spot target grows by at most one per step, so the first T positions hold exactly `target(T)`, for every T.
    """
    grows = target(position + 1, share).spot > target(position, share).spot
    return CapacityClass.SPOT if grows else CapacityClass.ON_DEMAND
