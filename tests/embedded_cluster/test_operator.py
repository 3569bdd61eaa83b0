"""The operator in virtual time, without a socket: hours of decisions in a moment."""

from __future__ import annotations

import asyncio
from random import Random

from plimsoll.config import Config, Controllers, LeaderElectionConfig, OperatorConfig
from plimsoll.controllers.build import controllers
from plimsoll.controllers.deletion_cost.spec import PREFIX
from plimsoll.controllers.deletion_cost.values import COST
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import annotations_of, name_of
from plimsoll.runtime.exit_codes import ExitCode
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import Operator
from tests.embedded_cluster.scene import by_label, client, cluster, deployment, patch, pods, ready_pods, virtually


@virtually
async def test_hours_in_which_every_scale_down_stays_even() -> None:
    settings = Config(
        operator=OperatorConfig(namespace="default", audit_log="", leader_election=LeaderElectionConfig(enabled=False)),
        controllers=Controllers(enabled=("deletion-cost",)),
    )
    rng = Random(7)
    async with cluster(*(f"3 zone={zone}" for zone in "abc"), seed=7) as made, client(made) as our_client:
        operator = Operator(
            settings, our_client, controllers(settings), clock=made.clock, metrics=Metrics(), name="one"
        )  # fmt: skip
        stop = asyncio.Event()
        life = asyncio.create_task(operator.run(stop))
        body = deployment(replicas=9)
        body["metadata"]["annotations"] = {PREFIX + "enabled": "true"}
        await made.create(kinds.DEPLOYMENTS, body)
        await asyncio.sleep(600)
        assert operator.leading
        for _ in range(4):
            for _ in range(3):
                made.api.objects.delete(kinds.PODS, "default", name_of(rng.choice(pods(made))), {})
                await asyncio.sleep(rng.uniform(1, 60))
            await patch(made, kinds.DEPLOYMENTS, "web", {"spec": {"replicas": rng.randint(9, 14)}})
            await asyncio.sleep(1800)
            assert all(COST in annotations_of(pod) for pod in ready_pods(made))
            before = by_label(made, pods(made))
            await patch(made, kinds.DEPLOYMENTS, "web", {"spec": {"replicas": 6}})
            await asyncio.sleep(1800)
            after = by_label(made, ready_pods(made))
            assert after == {"a": 2, "b": 2, "c": 2}, f"from {before}"
        assert operator.not_ready() is None
        stop.set()
        assert await life is ExitCode.STOPPED
