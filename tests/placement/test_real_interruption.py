"""Spot nodes are reclaimed in the middle of a rebalance, one with a notice and one without."""

from __future__ import annotations

from collections.abc import Callable

from plimsoll.controllers.placement.spec import SPOT_PERCENTAGE
from plimsoll.kube.client.client import Client
from plimsoll.kube.types.resources import NODES
from tests.eventually import eventually
from tests.faults.history import History
from tests.faults.upstream import Direct, Upstream
from tests.placement.live import Workload, asking, config, evictions, is_ready, operating, pod_states
from tools.controlplane.cluster import ControlPlane

TAINT = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}


async def test_replacements_come_up_before_the_node_goes_and_the_minimum_stays(
    control_plane: ControlPlane, client: Client, namespace: str, home: str, kwok_nodes: Callable[[str], list[str]]
):
    spot = kwok_nodes("4 zone=a class=spot")
    on_demand = set(kwok_nodes("2 zone=a class=on-demand"))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    async with (
        operating(control_plane, namespace, config(home, namespace)) as running,
        Direct(Upstream.from_kubeconfig(control_plane.kubeconfig)) as direct,
    ):
        web = await Workload(client, namespace, "web").create(12, asking(75, 3))
        await web.settled(9, 3)
        async with History(direct, [pods]) as history:
            await web.annotate({SPOT_PERCENTAGE: "50%"})
            await eventually(lambda: evictions(running) >= 1, "a move under way")
            noticed, lost = spot[0], spot[1]
            await client.patch(NODES, "", noticed, {"spec": {"taints": [TAINT]}})
            control_plane.remove_nodes([lost])

            async def left() -> bool:
                return noticed not in {pod.spec.node_name for pod in await web.pods()}

            await eventually(left, "nobody on the node that goes")
            await web.settled(6, 6)
            await history.caught_up()
            fewest = min(
                sum(is_ready(pod) and pod["spec"].get("nodeName") in on_demand for pod in found)
                for _, found in pod_states(history, "web")
            )
        assert fewest >= 3, "S13: the minimum was ready at every revision"
