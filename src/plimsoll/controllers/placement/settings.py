"""What the operator's configuration says about placement, for all workloads."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal

from msgspec import Struct

from plimsoll.controllers.placement.capacity_class import ClassRules
from plimsoll.controllers.placement.target import Rounding
from plimsoll.controllers.placement.window import DisruptionWindow
from plimsoll.kube.types.resources import Resource, config_maps_in
from plimsoll.kube.types.stored import ConfigMap
from plimsoll.runtime.decision import DisruptionLimits


class PlacementSettings(Struct, frozen=True):
    rules: ClassRules = ClassRules()
    rounding: Rounding = Rounding.DOWN
    percent_sign: Literal["required", "optional"] = "required"
    when_min_exceeds_replicas: Literal["ignore", "on-demand"] = "ignore"
    window: DisruptionWindow | None = None  # where neither workload nor namespace has one; None: always open
    cooldown: timedelta = timedelta(seconds=10)
    retry_interval: timedelta = timedelta(seconds=30)  # of what is held up for an unknown time
    moving_percentage: int = 0  # of a workload's replicas that may be missing for a move; always at least one
    migrations: DisruptionLimits = DisruptionLimits(200, 1000, timedelta(hours=1))
    spot_fallback_after: timedelta = timedelta(minutes=2)
    max_fallbacks_per_minute: int = 30
    external_autoscaler: bool = False  # nodes for pods that fit nowhere are made by someone else
    namespace: str = "plimsoll-system"  # the operator's own, with its memory
    installation: str = "plimsoll-system"  # by which installations are told apart: the same, of all replicas
    namespace_labels: Mapping[str, str] = {}  # that a namespace must have for its workloads to be managed
    webhook: bool = True  # whether new pods are given a class at all

    @property
    def memory(self) -> Resource[ConfigMap]:
        return config_maps_in(self.namespace)
