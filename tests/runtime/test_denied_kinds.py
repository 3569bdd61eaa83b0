"""A kind that the server denies, or no longer has, stops only the controllers that need it, and a restart is not needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, ClassVar

import aiohttp
import pytest

from plimsoll.config import Config, Controllers, Kubernetes, LeaderElectionConfig, OperatorConfig
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import Credentials
from plimsoll.kube.types.resources import NODES, PODS, Resource
from plimsoll.runtime.health_server import HealthServer
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import Operator
from tests.clocks import PushedClock
from tests.eventually import eventually
from tests.kube.watch_server import Answer, WatchServer
from tests.runtime.test_reconciler import Scripted

FORBIDDEN = [Answer(403, "Forbidden")] * 1000
GONE = [Answer(404, "NotFound")] * 1000
EXIT_AGE = timedelta(minutes=15)


class OfPods(Scripted):
    name: ClassVar[str] = "of-pods"
    watches: ClassVar[tuple[Resource[Any], ...]] = (PODS,)


class OfNodes(Scripted):
    name: ClassVar[str] = "of-nodes"
    watches: ClassVar[tuple[Resource[Any], ...]] = (PODS, NODES)


class Running:
    def __init__(self, operator: Operator, clock: PushedClock, task: asyncio.Task[Any]) -> None:
        self.operator, self.clock, self.task = operator, clock, task


@asynccontextmanager
async def running(server: WatchServer, controllers: Sequence[Scripted]) -> AsyncIterator[Running]:
    settings = Config(
        operator=OperatorConfig(audit_log="", leader_election=LeaderElectionConfig(enabled=False)),
        controllers=Controllers(reconcile_interval=timedelta(seconds=5)),
        kubernetes=Kubernetes(exit_view_age=EXIT_AGE),
    )
    clock, stop = PushedClock(), asyncio.Event()
    async with Client(Credentials(server.url), clock=clock, qps=10_000, burst=10_000) as client:
        operator = Operator(settings, client, controllers, clock=clock, metrics=Metrics(), name="here")
        task = asyncio.create_task(operator.run(stop))
        try:
            yield Running(operator, clock, task)
        finally:
            stop.set()
            await task


async def until(run: Running, condition: Any) -> None:
    def look() -> Any:
        run.clock.push(1.0)
        return condition()

    await eventually(look)


@pytest.mark.parametrize("denial", [FORBIDDEN, GONE], ids=["403", "404"])
async def test_only_the_controller_that_needs_the_kind_stops(denial: list[Answer]) -> None:
    pods, nodes = OfPods(), OfNodes()
    async with WatchServer(PODS, NODES) as server:
        server.create(PODS, "default", "a")
        async with running(server, [pods, nodes]) as run:
            await until(run, lambda: pods.asked and nodes.asked)
            server.answer(NODES, "list", *denial)
            server.answer(NODES, "watch", *denial)
            server.end_watches(NODES)
            await until(run, run.operator.stopped_controllers)
            (stopped,) = run.operator.stopped_controllers()
            assert stopped.startswith("of-nodes is stopped: the view of nodes is not live: nodes: ")
            assert str(denial[0].status) in stopped
            assert run.operator.not_ready() is None, "the other controller works"
            async with (
                HealthServer("127.0.0.1", 0, run.operator, run.operator.metrics.registry) as health,
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{health.port}/readyz") as reply,
            ):
                assert reply.status == 200
                assert await reply.text() == f"ok\n{stopped}\n"
            decided, before = len(nodes.asked), len(pods.asked)
            for _ in range(40):
                run.clock.push(EXIT_AGE.total_seconds() / 20)
                await asyncio.sleep(0.01)
                server.create(PODS, "default", f"more-{_}")
            await until(run, lambda: len(pods.asked) > before)
            assert len(nodes.asked) == decided, "nothing is decided without the nodes"
            assert not run.task.done(), "the process goes on, although a kind was out of sight for twice the limit"
            server.answer_truly()
            await until(run, lambda: not run.operator.stopped_controllers() and len(nodes.asked) > decided)


async def test_the_process_is_not_ready_when_no_controller_can_work() -> None:
    async with WatchServer(PODS, NODES) as server:
        server.answer(PODS, "list", *FORBIDDEN)
        async with running(server, [OfPods(), OfNodes()]) as run:
            await until(run, lambda: "of-pods is stopped" in (run.operator.not_ready() or ""))
            assert "of-nodes is stopped" in (run.operator.not_ready() or "")
