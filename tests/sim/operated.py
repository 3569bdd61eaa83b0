"""The operator with its admission webhook on an embedded cluster, all in one process and in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec

from plimsoll.assembly import controllers, placement_settings
from plimsoll.config import Config, Controllers, LeaderElection, Placement, WorkloadTiming
from plimsoll.config import Operator as OperatorConfig
from plimsoll.config import Webhook as WebhookConfig
from plimsoll.exit_codes import ExitCode
from plimsoll.metrics import Metrics
from plimsoll.operator import Operator
from plimsoll.placement.admission import Admission
from plimsoll.placement.webhook_configuration import webhooks
from plimsoll.sim.api import kinds
from plimsoll.sim.api.admission import UnansweredError
from plimsoll.sim.api.documents import Json
from plimsoll.sim.cluster import Cluster
from plimsoll.web.admissions import Admissions
from plimsoll.web.live_looks import LiveLooks
from tests.sim.scene import client, cluster

HOME = "plimsoll-system"


class Webhook:
    """Answers the API server's questions once there is an operator to ask."""

    def __init__(self) -> None:
        self.admissions: Admissions | None = None
        self.asked = 0

    async def __call__(self, url: str, authority: bytes, review: Json, seconds: float) -> Json:
        if self.admissions is None:
            raise UnansweredError("nobody serves")
        self.asked += 1
        answer: Json = msgspec.json.decode(await self.admissions.review(msgspec.json.encode(review)))
        return answer


def settings(**placement: Any) -> Config:
    timing = WorkloadTiming(cooldown_period=timedelta(seconds=10), disruption_retry_interval=timedelta(seconds=30))
    return Config(
        # One process, so no election: a lease renewed every other second would be most of what happens.
        operator=OperatorConfig(namespace=HOME, audit_log="", leader_election=LeaderElection(enabled=False)),
        controllers=Controllers(enabled=("placement", "deletion-cost"), workload_timing=timing),
        placement=Placement(max_migrations=1000, max_migrations_per_cluster=1000, **placement),
        webhook=WebhookConfig(mode="service"),
    )


@asynccontextmanager
async def operated(lines: Sequence[str], config: Config, *, seed: int = 0) -> AsyncIterator[tuple[Cluster, Operator]]:
    hook = Webhook()
    async with cluster(*lines, seed=seed, ask=hook) as made, client(made) as our_client:
        await made.create(kinds.NAMESPACES, {"metadata": {"name": HOME}})
        operator = Operator(config, our_client, controllers(config), clock=made.clock, metrics=Metrics(), name="one")
        admission = Admission(operator.view, placement_settings(config), watch_namespaces=())
        looks = LiveLooks(our_client, admission, made.clock, seconds=4.0, counted=lambda *_: None)
        stop = asyncio.Event()
        life = asyncio.create_task(operator.run(stop))
        await asyncio.sleep(5)
        hook.admissions = Admissions(
            admission, looks, made.clock, look_seconds=4.0, leading=lambda: operator.leading, forwarding=None,
            count=lambda one: operator.metrics.count((one,)),
        )  # fmt: skip
        described = webhooks({"url": "https://in-process"}, operator_namespace=HOME, timeout_seconds=10)
        await made.create(kinds.MUTATING_WEBHOOKS, {"metadata": {"name": "plimsoll"}, "webhooks": described})
        try:
            yield made, operator
        finally:
            stop.set()
            assert await life is ExitCode.STOPPED
