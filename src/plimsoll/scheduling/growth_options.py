"""Nodes that are not there yet: what whoever makes nodes tells whoever needs a place for a pod."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from msgspec import Struct

from plimsoll.kube.cache.store import View
from plimsoll.scheduling.model import ComingNode, Template


class GrowthOptions(Struct, frozen=True):
    templates: tuple[Template, ...] = ()  # kinds of node of which more would be made if pods needed them
    coming: tuple[ComingNode, ...] = ()  # ordered, and not ready yet
    unable: tuple[str, ...] = ()  # who else makes nodes, and why none can be had there now


class NodeProvisioner(Protocol):
    def growth_options(self, view: View, now: datetime) -> GrowthOptions:
        """What could still come. Pure: nothing is ordered by asking."""
        ...
