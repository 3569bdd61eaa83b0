"""Pods that went with their nodes: every replica counts them, and whoever leads writes them down.

A process that starts later sees only that a node is not there, and nothing of what it took along.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from plimsoll.disruption.ledger import DisruptionLedger
from plimsoll.disruption.store import DisruptionMemory
from plimsoll.kube.cache.store import View
from plimsoll.kube.client.errors import KubeError
from plimsoll.kube.types.core import KubeObject, Node
from plimsoll.kube.types.resources import BY_NODE, PODS, Resource
from plimsoll.runtime.clock import Clock

log = structlog.get_logger()

# Written down up to so many, the latest first: 1 MB in all, and more than any limit lets pass.
LOSSES_KEPT = 5000


class Losses:
    """Listens to nodes; `keep` runs beside the work."""

    def __init__(
        self,
        ledger: DisruptionLedger,
        memory: DisruptionMemory,
        view: View,
        clock: Clock,
        *,
        may_write: Callable[[], bool],
    ) -> None:
        self._ledger = ledger
        self._memory = memory
        self._view = view
        self._clock = clock
        self._may_write = may_write
        self._due = asyncio.Event()

    def node_changed(self, _: Resource[Any], before: KubeObject | None, after: KubeObject | None) -> None:
        # Leading or not: whoever leads next has seen the losses too.
        if not isinstance(before, Node) or not before.ready or (isinstance(after, Node) and after.ready):
            return
        self._ledger.node_lost(self._view[PODS].by(BY_NODE, before.name), self._view, self._clock.monotonic())
        self._due.set()

    def requeue_after(self) -> None:
        """A tenure begins: what was seen here before it, the former leader may not have written."""
        self._due.set()

    async def keep(self) -> None:
        """Write losses down until cancelled."""
        while True:
            await self._due.wait()
            self._due.clear()
            lost = self._ledger.losses(self._clock.monotonic())[-LOSSES_KEPT:]
            missing = [loss for loss in lost if not self._memory.holds(loss)]
            if not missing or not self._may_write():
                continue  # once elected, this process looks again
            try:
                await self._memory.keep(missing)
            except KubeError as error:
                log.warning("losses not written down yet", pods=len(missing), error=str(error))
                await self._clock.sleep(1)
                self._due.set()
