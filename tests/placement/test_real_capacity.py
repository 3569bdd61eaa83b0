"""The deletion order `capacity` on the real control plane: 20 replicas at 60 %, at least 3 on-demand, in three zones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from plimsoll.controllers.deletion_cost.values import VALUE_RECORD
from plimsoll.controllers.placement.target import Share, target
from plimsoll.kube.client.client import Client
from plimsoll.kube.types.resources import NODES
from tests.eventually import eventually
from tests.faults.history import History
from tests.faults.upstream import Direct, Upstream
from tests.placement.live import Workload, asking, config, evictions, is_ready, operating, pod_states
from tests.placement.webhook_cluster import Running, template
from tools.controlplane.cluster import ControlPlane

ZONE = "topology.kubernetes.io/zone"
SPREAD = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


async def test_share_minimum_and_zones_are_right_at_each_stop_without_a_migration(
    control_plane: ControlPlane, client: Client, namespace: str, home: str, kwok_nodes: Callable[[str], list[str]]
):
    for zone in "abc":
        kwok_nodes(f"1 zone={zone} class=spot"), kwok_nodes(f"1 zone={zone} class=on-demand")
    settings = config(home, namespace, enabled=("placement", "deletion-cost"))
    annotations = {**asking(60, 3), "pod-deletion-cost.lablabs.io/enabled": "true"}
    async with operating(control_plane, namespace, settings) as running:
        web = Workload(client, namespace, "web")
        plain = template("web")
        spread = {**plain, "spec": {**plain["spec"], "topologySpreadConstraints": [SPREAD]}}
        await web.create(20, annotations, template=spread)
        zones = {node.name: node.labels[ZONE] for node in (await client.list(NODES)).items if ZONE in node.labels}
        skews = {}
        for count in (20, 11, 7, 4, 20, 2):
            await web.scale(count)
            wanted = target(count, Share(3, 60))
            await web.settled(wanted.spot, wanted.on_demand)
            found = Counter(dict.fromkeys(zones.values(), 0))
            found.update(zones[pod.spec.node_name] for pod in await web.pods())
            skews[count] = max(found.values()) - min(found.values())
            await eventually(lambda: _all_in_order(web, running), "every pod has its value")
        assert evictions(running) == 0
        # Pods of 20 may stand 7/7/6; what is left of them after any number of deletions differs by one at most.
        assert max(skews.values()) <= 1, skews


async def _all_in_order(web: Workload, running: Running) -> bool:
    marked = [VALUE_RECORD in pod.annotations for pod in await web.pods()]
    return all(marked) and running.counted("plimsoll_blocked", controller="deletion-cost", code="ReplicasStarting") == 0


@pytest.mark.soak
async def test_a_rollout_and_a_scale_down_while_values_are_being_written_end_well(
    control_plane: ControlPlane, client: Client, namespace: str, home: str, kwok_nodes: Callable[[str], list[str]]
):
    """Fault 20: neither waits for the other, and all comes to rest at the target."""
    for zone in "abc":
        kwok_nodes(f"1 zone={zone} class=spot"), kwok_nodes(f"1 zone={zone} class=on-demand")
    settings = config(home, namespace, enabled=("placement", "deletion-cost"))
    annotations = {**asking(60, 3), "pod-deletion-cost.lablabs.io/enabled": "true"}
    async with operating(control_plane, namespace, settings) as running:
        web = await Workload(client, namespace, "web").create(20, annotations)

        async def being_written() -> bool:
            return any(VALUE_RECORD in pod.annotations for pod in await web.pods())

        await eventually(being_written, "a first value")
        await web.patch({"spec": {"template": {"metadata": {"annotations": {"version": "two"}}}}})
        await web.scale(9)
        wanted = target(9, Share(3, 60))
        await web.settled(wanted.spot, wanted.on_demand)
        assert {pod.annotations.get("version") for pod in await web.pods()} == {"two"}
        await eventually(lambda: _all_in_order(web, running), "every pod has its value")
        before = {pod.uid for pod in await web.pods()}
        await web.scale(5)
        fewer = target(5, Share(3, 60))
        await web.settled(fewer.spot, fewer.on_demand)
        assert {pod.uid for pod in await web.pods()} < before, "no migration on the way down"


async def test_the_minimum_holds_in_scale_downs_of_workloads_that_did_not_opt_in_to_deletion_costs(
    control_plane: ControlPlane, client: Client, namespace: str, home: str, kwok_nodes: Callable[[str], list[str]]
):
    """10 to 6 with a minimum of five, and 6 to 2 with one of three, while rollouts and restarts go on in between."""
    kwok_nodes("2 zone=a class=spot"), kwok_nodes("2 zone=a class=on-demand")
    settings = config(home, namespace, enabled=("placement", "deletion-cost"))
    async with operating(control_plane, namespace, settings) as running:
        ten = await Workload(client, namespace, "ten").create(10, asking(50, 5))
        six = await Workload(client, namespace, "six").create(6, asking(50, 3))
        await ten.settled(5, 5)
        await six.settled(3, 3)
        for web in (ten, six):
            await web.patch({"spec": {"template": {"metadata": {"annotations": {"version": "two"}}}}})
            await eventually(partial(_is_version, web, "two"), "a rollout")
        await ten.settled(5, 5)
        await six.settled(3, 3)
        for web in (ten, six):
            await eventually(partial(_all_in_order, web, running), "every pod has its value")
        await ten.scale(6)
        await six.scale(2)
        await ten.settled(1, 5)
        await six.settled(0, 2)
        assert evictions(running) == 0


async def _is_version(web: Workload, version: str) -> bool:
    pods = await web.pods()
    return bool(pods) and all(pod.annotations.get("version") == version for pod in pods)


async def test_a_rollout_keeps_on_demand_between_the_minimum_and_target_plus_surge(
    control_plane: ControlPlane, client: Client, namespace: str, home: str, kwok_nodes: Callable[[str], list[str]]
):
    """T=4, M=2, P=50, maxSurge 1: at its end the split is exact, with no eviction."""
    kwok_nodes("2 zone=a class=spot")
    on_demand = set(kwok_nodes("2 zone=a class=on-demand"))
    settings = config(home, namespace, enabled=("placement", "deletion-cost"))
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    async with (
        operating(control_plane, namespace, settings) as running,
        Direct(Upstream.from_kubeconfig(control_plane.kubeconfig)) as direct,
    ):
        web = await Workload(client, namespace, "web").create(4, asking(50, 2), strategy=strategy)
        await web.settled(2, 2)
        await eventually(lambda: _all_in_order(web, running), "every pod has its value")
        async with History(direct, [pods]) as history:
            await web.patch({"spec": {"template": {"metadata": {"annotations": {"version": "two"}}}}})
            await eventually(lambda: _is_version(web, "two"), "a rollout")
            await web.settled(2, 2)
            await history.caught_up()
            for _, found in pod_states(history, "web"):
                here = [one for one in found if one["spec"].get("nodeName") in on_demand]
                assert sum(map(is_ready, here)) >= 2, "ready on-demand replicas never fall below the minimum"
                assert sum("deletionTimestamp" not in one["metadata"] for one in here) <= 3
        assert evictions(running) == 0
