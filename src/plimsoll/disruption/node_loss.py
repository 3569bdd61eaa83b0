"""Pods that were lost with their nodes: every operator replica counts them, and the leader records them.

A process that starts later sees only that a node is missing, and not the pods that were lost with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from plimsoll.disruption.ledger import DisruptionLedger
from plimsoll.disruption.store import DisruptionStore
from plimsoll.kube.cache.store import View
from plimsoll.kube.client.errors import KubeError
from plimsoll.kube.types.core import Node
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import BY_NODE, PODS, Resource
from plimsoll.runtime.clock import Clock

log = structlog.get_logger()

# The latest losses are recorded up to this number: 1 MB in all, and more than any disruption limit.
MAX_RECORDED_LOSSES = 5000


class NodeLossRecorder:
    """Listens to nodes. `keep` runs in the background for as long as the operator does."""

    def __init__(
        self,
        ledger: DisruptionLedger,
        memory: DisruptionStore,
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
        # Also without leadership: this process may lead next and must know the losses.
        if not isinstance(before, Node) or not before.ready or (isinstance(after, Node) and after.ready):
            return
        self._ledger.record_node_loss(self._view[PODS].by(BY_NODE, before.name), self._view, self._clock.monotonic())
        self._due.set()

    def term_began(self) -> None:
        """Record what this process saw before its term: the former leader may not have recorded it."""
        self._due.set()

    async def keep(self) -> None:
        """Record losses until cancelled."""
        while True:
            await self._due.wait()
            self._due.clear()
            lost = self._ledger.losses(self._clock.monotonic())[-MAX_RECORDED_LOSSES:]
            missing = [loss for loss in lost if not self._memory.holds(loss)]
            if not missing or not self._may_write():
                continue  # checked again when a term begins
            try:
                await self._memory.keep(missing)
            except KubeError as error:
                log.warning("cannot record node losses yet; retrying", pods=len(missing), error=str(error))
                await self._clock.sleep(1)
                self._due.set()
