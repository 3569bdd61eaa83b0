"""Runs of the real operator with the example controller: in this process, to be crashed, watched and asked."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import TracebackType
from typing import Self

from plimsoll.clock import Clock, RealClock
from plimsoll.config import Config, Controllers, DisruptionLimits, Kubernetes, LeaderElection
from plimsoll.config import Operator as OperatorConfig
from plimsoll.exit_codes import ExitCode
from plimsoll.kube.client import Client
from plimsoll.metrics import Metrics
from plimsoll.operator import Operator, connect, identity
from tests.eventually import eventually
from tests.faults.example import ExampleController
from tests.faults.proxy import Link, Proxy

# Short, so that a failover takes seconds; long enough that a busy machine does not lose the lease by itself.
SHORT_LEASE = LeaderElection(
    lease_duration=timedelta(seconds=4), renew_deadline=timedelta(seconds=3), retry_period=timedelta(milliseconds=200)
)
NO_ELECTION = LeaderElection(enabled=False)


def config(
    namespace: str,
    *,
    election: LeaderElection = NO_ELECTION,
    limits: DisruptionLimits | None = None,
    kubernetes: Kubernetes | None = None,
) -> Config:
    return Config(
        operator=OperatorConfig(
            namespace=namespace, audit_log="", leader_election=election, disruption_limits=limits or DisruptionLimits()
        ),
        controllers=Controllers(),
        kubernetes=kubernetes or Kubernetes(qps=500, burst=500, request_timeout=timedelta(seconds=10)),
    )


class Run:
    """One life of the operator behind a link of its own."""

    def __init__(self, link: Link, settings: Config, clock: Clock, *, last_first: bool) -> None:
        self.link = link
        self.metrics = Metrics()
        self.controller = ExampleController(settings.operator.namespace, last_first=last_first)
        self._client: Client = connect(settings, self.metrics, kubeconfig=link.kubeconfig, context=None)
        self.operator = Operator(
            settings, self._client, [self.controller], clock=clock, metrics=self.metrics, name=identity()
        )
        self._stopping = asyncio.Event()
        self._task = asyncio.create_task(self._live(), name=f"operator {link.name}")
        link.on_crash = self._task.cancel

    @classmethod
    async def start(
        cls, proxy: Proxy, name: str, settings: Config, *, clock: Clock | None = None, last_first: bool = False
    ) -> Run:
        return cls(await proxy.link(name), settings, clock or RealClock(), last_first=last_first)

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

    @property
    def leads(self) -> bool:
        return self.metric("plimsoll_leading") == 1

    def crash(self) -> None:
        self.link.crash()

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric, summed over the labels that are not given."""
        total = 0.0
        for family in self.metrics.registry.collect():
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    total += sample.value
        return total

    async def look(self) -> None:
        """Have every key looked at now, be it only to find that it must wait."""
        (reconciler,) = self.operator.reconcilers
        await eventually(lambda: reconciler.queue.idle, "the queue runs dry")
        reconciler.look_at_everything()
        await eventually(lambda: reconciler.queue.idle, "every key was looked at")

    async def rounds(self, count: int) -> None:
        """Have every key decided anew, so many times."""
        for _ in range(count):
            wanted = self.controller.decisions + 1
            await self.look()
            while self.controller.decisions < wanted:  # it was waiting for the view to show what it wrote
                await asyncio.sleep(0.05)
                await self.look()


class Supervisor:
    """Starts the operator anew whenever it ends, as a kubelet would; each life has a link of its own, a1, a2, …"""

    def __init__(self, proxy: Proxy, name: str, settings: Config) -> None:
        self._proxy = proxy
        self._name = name
        self._settings = settings
        self.lives: list[Run] = []
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
    def current(self) -> Run:
        return self.lives[-1]

    async def living(self) -> Run:
        """The life that is not over: right after a crash, the next one has yet to begin."""
        await eventually(lambda: not self.current.ended and not self.current.link.is_cut, "the operator is up again")
        return self.current

    async def _supervise(self) -> None:
        while True:
            run = await Run.start(self._proxy, f"{self._name}{len(self.lives) + 1}", self._settings)
            self.lives.append(run)
            self.codes.append(await run.exit_code())
