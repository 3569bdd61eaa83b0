"""What the keys of `operator` and `controllers` change, seen on an operator that is built from a configuration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from plimsoll.config import Config, Controllers, DisruptionLimitsConfig, Kubernetes, OperatorConfig
from plimsoll.disruption.ledger import Disruption
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import Credentials
from plimsoll.kube.types.resources import DEPLOYMENTS, PODS, Key
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import Operator
from tests.eventually import eventually
from tests.kube.watch_server import WatchServer
from tests.runtime.test_disruption_budgets import WEB, view, workload
from tests.runtime.test_reconciler import Scripted


def settings(*, controllers: Controllers | None = None, limits: DisruptionLimitsConfig | None = None) -> Config:
    # Read-only: no lease and no memory is needed, and every decision falls as it would.
    operator = OperatorConfig(read_only_mode=True, audit_log="", disruption_limits=limits or DisruptionLimitsConfig())
    return Config(operator=operator, controllers=controllers or Controllers(), kubernetes=Kubernetes())


@asynccontextmanager
async def operating(config: Config, controller: Scripted, deployments: int) -> AsyncIterator[Operator]:
    async with WatchServer(DEPLOYMENTS, PODS) as server:
        for number in range(deployments):
            server.create(DEPLOYMENTS, "default", f"web-{number}")
        async with Client(Credentials(server.url), clock=RealClock()) as client:
            operator = Operator(config, client, [controller], clock=RealClock(), metrics=Metrics(), name="one")
            stop = asyncio.Event()
            life = asyncio.create_task(operator.run(stop))
            try:
                yield operator
            finally:
                stop.set()
                await life


async def test_reconcile_interval_is_how_often_a_key_is_looked_at_though_nothing_changes() -> None:
    controller = Scripted()
    config = settings(controllers=Controllers(reconcile_interval=timedelta(milliseconds=50)))
    async with operating(config, controller, deployments=1):
        await eventually(lambda: len(controller.asked) >= 5, "five looks")


@pytest.mark.parametrize("workers", [1, 3])
async def test_max_concurrent_reconciles_is_how_many_keys_are_in_hand(workers: int) -> None:
    config = settings(controllers=Controllers(max_concurrent_reconciles=workers))
    async with operating(config, Scripted(), deployments=5) as operator:
        (reconciler,) = operator.reconcilers
        held, gate = [], asyncio.Event()
        act = operator._actuator.act

        async def hold(*arguments: Any) -> Any:
            held.append(arguments)
            await gate.wait()
            return await act(*arguments)

        operator._actuator.act = hold  # type: ignore[method-assign, assignment]
        await eventually(lambda: not operator.view.stale and len(operator.view[DEPLOYMENTS]) == 5)
        reconciler.enqueue_all()
        await eventually(lambda: len(held) == workers)
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert len(held) == workers
        gate.set()
        await eventually(lambda: reconciler.queue.idle)
        assert len({key for _, key, *_ in held}) == 5


OTHER = Key("Deployment", "default", "other")


@pytest.mark.parametrize(
    ("limits", "seconds_later", "refused"),
    [
        (DisruptionLimitsConfig(), 1, False),
        (DisruptionLimitsConfig(per_workload=3), 1, True),
        (DisruptionLimitsConfig(per_workload=3, period=timedelta(seconds=30)), 29, True),
        (DisruptionLimitsConfig(per_workload=3, period=timedelta(seconds=30)), 31, False),
        (DisruptionLimitsConfig(per_workload=4, per_cluster=5), 1, True),
        (DisruptionLimitsConfig(per_workload=4, per_cluster=6), 1, False),
    ],
)
async def test_disruption_limits(limits: DisruptionLimitsConfig, seconds_later: float, refused: bool) -> None:
    """Three pods of the workload and two of another were lost."""
    async with Client(Credentials("http://127.0.0.1:1"), clock=RealClock()) as client:
        config = settings(limits=limits)
        ledger = Operator(config, client, [Scripted()], clock=RealClock(), metrics=Metrics(), name="one")._ledger
    deployment, replica_set, pods = workload()
    lost = [Disruption(whose, "default/x", str(n), 0.0, ours=False) for n, whose in enumerate([WEB] * 3 + [OTHER] * 2)]
    ledger.recall(lost)
    blocker = ledger.refusal(pods[0], view(deployment, replica_set, pods), seconds_later, workload=WEB)
    assert (blocker is not None and blocker.code == "DisruptionLimit") == refused


async def test_by_default_the_limits_do_not_set_the_pace_of_a_hundred_replicas() -> None:
    """One pod a cooldown, which is as fast as one at a time can go, and a node lost with as many pods as it may hold."""
    config = settings()
    async with Client(Credentials("http://127.0.0.1:1"), clock=RealClock()) as client:
        ledger = Operator(config, client, [Scripted()], clock=RealClock(), metrics=Metrics(), name="one")._ledger
    ledger.recall([Disruption(OTHER, "default/x", f"lost-{n}", 0.0, ours=False) for n in range(110)])
    deployment, replica_set, pods = workload()
    seen = view(deployment, replica_set, pods)
    now = 0.0
    for number in range(100):
        assert ledger.refusal(pods[0], seen, now, workload=WEB) is None, number
        ledger.enter(Disruption(WEB, "default/gone", f"asked-{number}", now))
        now += config.controllers.workload_timing.cooldown_period.total_seconds()
