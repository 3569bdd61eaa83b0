"""The operator in this process, behind a link of its own through the proxy: to be watched, asked, stopped and crashed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

from plimsoll.config import Config
from plimsoll.runtime.clock import Clock, RealClock
from plimsoll.runtime.decision import Controller
from plimsoll.runtime.exit_codes import ExitCode
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import Operator, connect, identity
from tests.clocks import HurriedClock
from tests.eventually import eventually
from tests.faults.proxy import Link, Proxy

L = TypeVar("L", bound="Life")


class Life:
    """One life of the operator, from its start to its end by itself, by us or by a crash."""

    def __init__(
        self, link: Link, settings: Config, controllers: Sequence[Controller], *, clock: Clock | None = None
    ) -> None:
        self.link = link
        self.metrics = Metrics()
        self._client = connect(settings, self.metrics, kubeconfig=link.kubeconfig, context=None)
        # Who renews a lease sleeps in between, and must not be hurried.
        usual = RealClock() if settings.operator.leader_election.enabled else HurriedClock()
        self.operator = Operator(
            settings, self._client, controllers, clock=clock or usual, metrics=self.metrics, name=identity()
        )
        self._stopping = asyncio.Event()
        self._task = asyncio.create_task(self._live(), name=f"operator {link.name}")
        link.on_crash = self._task.cancel

    async def _live(self) -> ExitCode:
        try:
            return await self.operator.run(self._stopping)
        finally:
            await self._client.close()

    @property
    def ended(self) -> bool:
        return self._task.done()

    async def exit_code(self) -> ExitCode | None:
        """How it ended, once it has; None after a crash."""
        await asyncio.wait([self._task])
        return None if self._task.cancelled() else self._task.result()

    async def stop(self) -> ExitCode | None:
        self._stopping.set()
        return await self.exit_code()

    def crash(self) -> None:
        self.link.crash()

    @property
    def leads(self) -> bool:
        return self.metric("plimsoll_leading") == 1

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric, summed over the labels that are not given."""
        return sum(
            sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def blocked(self, code: str) -> bool:
        return self.metric("plimsoll_blocked", code=code) > 0

    async def idle(self) -> None:
        """Nothing waits and nothing is under way; delayed looks may still come."""
        queues = [reconciler.queue for reconciler in self.operator.reconcilers]
        await eventually(lambda: all(queue.idle for queue in queues), "the queue runs dry")

    async def look(self) -> None:
        """Have every key looked at now, be it only to find that it must wait."""
        await self.idle()
        for reconciler in self.operator.reconcilers:
            reconciler.enqueue_all()
        await self.idle()

    async def rounds(self, count: int) -> None:
        """Have something decided anew, so many times."""
        for _ in range(count):
            before = self.metric("plimsoll_decisions_total")
            await self.look()
            while self.metric("plimsoll_decisions_total") <= before:  # the view has yet to show what was written
                await asyncio.sleep(0.05)
                await self.look()


class Lives(Generic[L]):
    """Starts the operator anew whenever it ends, as a kubelet would; each life has a link of its own, a1, a2, …"""

    def __init__(self, proxy: Proxy, name: str, begin: Callable[[Link], L]) -> None:
        self._proxy = proxy
        self._name = name
        self._begin = begin
        self.lives: list[L] = []
        self.codes: list[ExitCode | None] = []
        self._task = asyncio.create_task(self._supervise())

    async def __aenter__(self) -> Self:
        await eventually(lambda: self.lives, "the operator starts")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.current.stop()

    @property
    def current(self) -> L:
        return self.lives[-1]

    async def living(self) -> L:
        """The life that is not over: right after a crash, the next one has yet to begin."""
        await eventually(lambda: not self.current.ended and not self.current.link.is_cut, "the operator is up again")
        return self.current

    async def _supervise(self) -> None:
        while True:
            link = await self._proxy.link(f"{self._name}{len(self.lives) + 1}")
            self.lives.append(self._begin(link))
            self.codes.append(await self.current.exit_code())
