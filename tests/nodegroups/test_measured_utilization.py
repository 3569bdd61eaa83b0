"""With `utilizationSource: metrics`, what nodes really use decides; where nothing recent is known, nothing goes."""

from __future__ import annotations

from datetime import timedelta

from plimsoll.controllers.nodegroups.controller import CLUSTER, NodeGroupController
from plimsoll.controllers.nodegroups.scale_down.utilization import METRICS_PATH, MeasuredUse, NodeMetrics, UsagePoller
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import Credentials
from plimsoll.kube.codec import convert, encode
from plimsoll.runtime.clock import RealClock
from tests.kube.stub_server import Reply, StubServer
from tests.nodegroups.world import World


def measure(world: World, measured: MeasuredUse, cpu: str) -> None:
    body = {"timestamp": world.now.isoformat(), "usage": {"cpu": cpu, "memory": "1Gi"}}
    measured.nodes = {
        member.node_name: convert({"metadata": {"name": member.node_name}, **body}, NodeMetrics)
        for member in world.members()
    }


def test_measurements_decide() -> None:
    world, measured = World(), MeasuredUse()
    world.controller = NodeGroupController(world.settings, world.inventories, measured=measured)
    world.group(desiredNodes=1, scaleDownPolicy={"underutilizationDuration": "20s", "cooldownSeconds": 1})
    world.run(20)
    world.change_group(desiredNodes=None)
    for _ in range(60):
        measure(world, measured, "1500m")
        world.run(1)
    assert len(world.cloud.machines) == 1, "nothing is requested, much is used"
    measured.nodes = {}
    world.run(60)
    assert len(world.cloud.machines) == 1, "nothing is known"
    measure(world, measured, "100m")
    world.now += timedelta(minutes=4)
    world.run(60)
    assert len(world.cloud.machines) == 1, "what is known is old"
    for _ in range(60):
        measure(world, measured, "100m")
        world.run(1)
    assert len(world.cloud.machines) == 0


async def test_they_are_read_from_the_api_server() -> None:
    body = {
        "metadata": {"name": "n1"}, "timestamp": "2026-01-01T00:00:00Z", "usage": {"cpu": "253819123n", "memory": "2048Ki"},
    }  # fmt: skip
    measured = MeasuredUse()
    async with StubServer().serve() as server, Client(Credentials(server.url), clock=RealClock()) as client:
        observer = UsagePoller(measured, client, RealClock(), interval=timedelta(seconds=1), cluster_key=CLUSTER)
        server.on("GET", METRICS_PATH, Reply(body=encode({"items": [body]})))
        await observer.poll()
        assert measured.nodes["n1"].usage["cpu"].milli == 254
        server.on("GET", METRICS_PATH, Reply(404, b"{}"))
        await observer.poll()
        assert list(measured.nodes) == ["n1"], "what was known stays, and grows old"
