"""Types of the group policy: PodDisruptionBudgets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import field

from plimsoll.kube.types.meta import KubeObject, LabelSelector, Part


class PodDisruptionBudgetSpec(Part, frozen=True, gc=False):
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str = "IfHealthyBudget"


class PodDisruptionBudgetStatus(Part, frozen=True, gc=False):
    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: Mapping[str, datetime] = field(default_factory=dict)


class PodDisruptionBudget(KubeObject, frozen=True, gc=False):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
