"""The nodes that could still be added. Node groups provide them, placement uses them."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from msgspec import Struct

from plimsoll.kube.cache.store import View
from plimsoll.scheduling.model import ComingNode, Template


class GrowthOptions(Struct, frozen=True):
    templates: tuple[Template, ...] = ()  # node templates that could be scaled up for pending pods
    coming: tuple[ComingNode, ...] = ()  # nodes that were ordered and are not ready yet
    unable: tuple[str, ...] = ()  # node groups that cannot provide nodes now, with the reason


class NodeProvisioner(Protocol):
    def growth_options(self, view: View, now: datetime) -> GrowthOptions:
        """Return what could be added. Deterministic, no I/O: nothing is ordered."""
        ...
