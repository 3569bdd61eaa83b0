"""The next action for a workload's split: one of seven, chosen in the order of the specification (seeds/001)."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from plimsoll.controllers.placement.target import CapacityClass, Target


class NextAction(Enum):
    NONE = "none"
    SCALE_UP_ON_DEMAND = "scale-up-on-demand"
    SCALE_UP_SPOT = "scale-up-spot"
    SCALE_DOWN_SPOT = "scale-down-spot"
    SCALE_DOWN_ON_DEMAND = "scale-down-on-demand"
    MIGRATE_TO_SPOT = "migrate-to-spot"
    MIGRATE_TO_ON_DEMAND = "migrate-to-on-demand"


class ReplicaState(Struct, frozen=True):
    """Current and desired replicas of a workload by class."""

    current_spot: int
    current_on_demand: int
    desired: Target

    @property
    def spot_drift(self) -> int:
        """Positive: too many on spot."""
        return self.current_spot - self.desired.spot

    @property
    def on_demand_drift(self) -> int:
        """Positive: too many on-demand."""
        return self.current_on_demand - self.desired.on_demand

    @property
    def needs_reconciliation(self) -> bool:
        return self.spot_drift != 0 or self.on_demand_drift != 0

    def next_action(self) -> NextAction:
        """The total first, then the split; on-demand first on the way up, spot first on the way down."""
        missing = self.desired.total - self.current_spot - self.current_on_demand
        if missing > 0:
            return NextAction.SCALE_UP_ON_DEMAND if self.on_demand_drift < 0 else NextAction.SCALE_UP_SPOT
        if missing < 0:
            return NextAction.SCALE_DOWN_SPOT if self.spot_drift > 0 else NextAction.SCALE_DOWN_ON_DEMAND
        if self.on_demand_drift > 0:
            return NextAction.MIGRATE_TO_SPOT
        if self.spot_drift > 0:
            return NextAction.MIGRATE_TO_ON_DEMAND
        return NextAction.NONE

    def next_class(self) -> CapacityClass:
        """The class of the next replica that is created: on-demand first."""
        if self.on_demand_drift < 0 or self.spot_drift >= 0:
            return CapacityClass.ON_DEMAND
        return CapacityClass.SPOT
