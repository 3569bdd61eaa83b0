"""The operator's configuration of placement, for all workloads. `controllers/build.py` makes it from the config file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal

from msgspec import Struct

from plimsoll.controllers.placement.capacity_class import ClassRules
from plimsoll.controllers.placement.target import Rounding
from plimsoll.controllers.placement.window import DisruptionWindow
from plimsoll.kube.types.core import ConfigMap
from plimsoll.kube.types.resources import Resource, config_maps_in
from plimsoll.runtime.decision import DisruptionLimits


class PlacementSettings(Struct, frozen=True):
    rules: ClassRules = ClassRules()
    rounding: Rounding = Rounding.DOWN
    percent_sign: Literal["required", "optional"] = "required"
    when_min_exceeds_replicas: Literal["ignore", "on-demand"] = "ignore"
    window: DisruptionWindow | None = (
        None  # applies where neither the workload nor its namespace has one; None: always open
    )
    cooldown: timedelta = timedelta(seconds=10)
    retry_interval: timedelta = timedelta(seconds=30)  # requeue delay for blockers without an end time
    moving_percentage: int = 0  # share of a workload's replicas that may move together; always at least one
    migrations: DisruptionLimits = DisruptionLimits(200, 1000, timedelta(hours=1))
    spot_fallback_after: timedelta = timedelta(minutes=2)
    max_fallbacks_per_minute: int = 30
    external_autoscaler: bool = False  # another autoscaler adds nodes for unschedulable pods
    namespace: str = "plimsoll-system"  # the operator's own, with its ConfigMaps
    installation: str = "plimsoll-system"  # identifies this installation; the same for all replicas of the operator
    namespace_labels: Mapping[str, str] = {}  # labels that a namespace must have for its workloads to be managed
    webhook: bool = True  # whether the admission webhook runs

    @property
    def memory(self) -> Resource[ConfigMap]:
        return config_maps_in(self.namespace)
