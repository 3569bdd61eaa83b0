"""A move to spot where no spot node is: it is held back until a node group can make one, and then needs nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace

from plimsoll.config import Config
from plimsoll.controllers.build import controllers, observers
from plimsoll.controllers.placement.spec import SPOT_PERCENTAGE
from plimsoll.kube.types.resources import EVENTS
from plimsoll.providers.kwok.provider import KwokProvider
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import Operator, connect
from plimsoll.webhook.service import placement_webhook
from tests.eventually import eventually
from tests.nodegroups.live import AT_ONCE, Stage
from tests.nodegroups.live import config as groups_config
from tests.placement.conftest import WEBHOOKS
from tests.placement.live import Workload, asking, blocked, config
from tests.placement.webhook_cluster import Running, asked, empty, registered
from tests.rbac.everywhere import kubeconfig_of_the_operator
from tools.controlplane.cluster import ControlPlane


def both(home: str, namespace: str) -> Config:
    enabled = ("placement", "nodegroups")
    placing = config(home, namespace, enabled=enabled, spot_fallback_after=timedelta(minutes=10))
    groups = groups_config(home)
    return replace(placing, nodegroups=groups.nodegroups, providers=groups.providers)


@asynccontextmanager
async def operating(cluster: ControlPlane, namespace: str, settings: Config) -> AsyncIterator[Running]:
    metrics, stop, clock = Metrics(), asyncio.Event(), RealClock()
    made = controllers(settings)
    async with (
        connect(settings, metrics, kubeconfig=kubeconfig_of_the_operator(cluster, settings), context=None) as client,
        connect(settings, Metrics(), kubeconfig=Path(cluster.kubeconfig), context=None) as person,
    ):
        provider = KwokProvider(AT_ONCE, client, settings.operator.namespace, clock)
        providers = {"kwok": provider}
        operator = Operator(
            settings, client, made, clock=clock, metrics=metrics, name="one", providers=providers,
            observers=observers(settings, made, client, providers, clock),
        )  # fmt: skip
        async with placement_webhook(settings, made, client, operator, clock=clock, identity="one") as server:
            life = asyncio.create_task(operator.run(stop))
            running = Running(operator, server, client, stop)
            try:
                await registered(person)
                await asked(running, person, namespace)
                yield running
            finally:
                stop.set()
                await asyncio.gather(life, return_exceptions=True)
                await provider.close()


async def test_the_group_grows_for_the_replacement(
    control_plane: ControlPlane, namespace: str, stage: Stage, kwok_nodes: Callable[[str], list[str]]
) -> None:
    kwok_nodes("1 zone=a class=on-demand")
    home = control_plane.add_namespace("home")
    try:
        async with operating(control_plane, namespace, both(home, namespace)) as running:
            web = await Workload(stage.client, namespace, "web").create(4, asking(0))
            await web.settled(0, 4)
            await web.annotate({SPOT_PERCENTAGE: "50%"})
            await eventually(lambda: blocked(running, "NoPlaceToMovePods"), "the move is held back")
            await web.settled(0, 4)
            await stage.group("spot", maxNodes=1, taints=[], labels={"karpenter.sh/capacity-type": "spot"})
            await web.settled(2, 2)
            assert [member.spec.node_group_name for member in await stage.members()] == ["spot"]

            async def told() -> bool:
                notes = [one.note for one in (await stage.client.list(EVENTS, namespace)).items]
                return any(f"node group {namespace}/spot adds a node" in note for note in notes)

            await eventually(told, "an event that names the group")
    finally:
        control_plane.request("DELETE", WEBHOOKS)
        empty(control_plane, namespace)
        control_plane.remove_namespace(home)
