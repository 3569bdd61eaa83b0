"""The youngest replica leaves first, to the second.

Kubernetes prefers younger pods too, but takes ages within a power of two as equal: of two pods that are five and eight hours
old, either may go. Caches that take hours to fill are a reason to be exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from plimsoll.controllers.deletion_cost.algorithms.registry import AssignSettings, ValuedPod
from plimsoll.kube.types.apps import Deployment
from plimsoll.kube.types.core import Node

# Values fall with the time of creation, in seconds, and stay positive until 2093.
_BEGINNING = datetime(2025, 1, 1, tzinfo=UTC)


class ByAge:
    name = "by-age"

    def assign(
        self,
        workload: Deployment,  # noqa: ARG002 - part of the protocol
        pods: Sequence[ValuedPod],
        nodes: Mapping[str, Node],  # noqa: ARG002
        settings: AssignSettings,
    ) -> Mapping[str, int]:
        """A pod's value depends on the pod alone, so it is written once and never again."""
        costs: dict[str, int] = {}
        for replica in pods:
            created = replica.pod.metadata.creation_timestamp
            if created is not None and replica.decided_by_cost:
                costs[replica.pod.uid] = max(settings.ceiling - int((created - _BEGINNING).total_seconds()), 0)
        return costs
