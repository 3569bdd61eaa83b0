"""The operator itself, with its webhook, on both clusters: the same wishes end in the same state."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

from plimsoll.controllers.deletion_cost.spec import PREFIX
from plimsoll.controllers.deletion_cost.values import COST
from plimsoll.controllers.placement.spec import SPOT_PERCENTAGE
from plimsoll.kube.client.client import Client
from plimsoll.kube.types.resources import NODES
from tests.conformance.sides import Side, same
from tests.eventually import eventually
from tests.placement.live import Workload, asking, config, evictions, operating

_ZONE = "topology.kubernetes.io/zone"
_EVENLY = {PREFIX + "enabled": "true"}


async def test_placement_and_scale_downs(both: tuple[Side, Side]) -> None:
    await same(_story, both)


async def _story(side: Side) -> None:
    for zone in "abc":
        for kind in ("spot", "on-demand"):
            await side.add_nodes(f"1 zone={zone} class={kind} cpu=16")
    home = f"{side.namespace}-home"
    await side.ask("POST", "/api/v1/namespaces", {"metadata": {"name": home}})
    settings = config(home, side.namespace, enabled=("placement", "deletion-cost"))
    # Of a cluster the operator needs to know only where it is.
    where = cast("Any", SimpleNamespace(kubeconfig=side.kubeconfig))
    async with operating(where, side.namespace, settings) as running:
        client = running.client
        web = await Workload(client, side.namespace, "web").create(10, asking(60, 2))
        await web.settled(6, 4)
        side.note("admission placed every one right", [await _split(web), evictions(running)])
        await web.annotate({SPOT_PERCENTAGE: "30%"})
        await web.settled(3, 7)
        side.note("three were moved", [await _split(web), evictions(running)])
        await web.scale(4)
        await web.settled(1, 3, seconds=120)
        side.note("scaled down", await _split(web))

        even = await Workload(client, side.namespace, "even").create(9, _EVENLY)
        await _ready(even, 9)
        side.note("spread by the scheduler", await _by_zone(client, even))

        async def ranked() -> bool:
            return all(COST in pod.annotations for pod in await even.pods())

        await eventually(ranked, f"every pod has its value ({side.name})")
        for replicas in (6, 3):
            await even.scale(replicas)
            await _ready(even, replicas)
            side.note(f"{replicas} left, evenly", await _by_zone(client, even))
    await side.ask("DELETE", f"/api/v1/namespaces/{home}")


async def _split(workload: Workload) -> dict[str, int]:
    return {kind.value: count for kind, count in (await workload.split()).items()}


async def _ready(workload: Workload, replicas: int) -> None:
    async def is_ready() -> bool:
        pods = await workload.pods()
        return len(pods) == replicas and all(pod.ready for pod in pods)

    await eventually(is_ready, f"{replicas} ready pods of {workload.name}")


async def _by_zone(client: Client, workload: Workload) -> dict[str, int]:
    zones = {node.name: node.labels.get(_ZONE, "") for node in (await client.list(NODES)).items}
    return dict(sorted(Counter(zones[pod.spec.node_name] for pod in await workload.pods()).items()))
