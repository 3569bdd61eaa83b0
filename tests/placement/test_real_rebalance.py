"""Rebalancing on the real control plane: from creation to settled, moves under a budget and a window, rollouts in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from plimsoll.controllers.placement.spec import DURATION, SCHEDULE, SPOT_PERCENTAGE
from plimsoll.controllers.placement.target import Rounding, Share, target
from plimsoll.kube.client.client import Client
from tests.clocks import PushedClock
from tests.eventually import eventually
from tests.faults.history import History
from tests.faults.upstream import Direct, Upstream
from tests.placement.live import (
    SPOT,
    Workload,
    asking,
    blocked,
    config,
    cordon,
    evictions,
    is_ready,
    operating,
    pod_states,
)
from tests.placement.webhook_cluster import operating as standing_by
from tools.controlplane.cluster import ControlPlane

AddNodes = Callable[[str], list[str]]

EXAMPLES = {  # replicas, percentage, minimum: of both documents
    "normal": (10, 60, 2),
    "small": (3, 60, 2),
    "conflict": (4, 75, 3),
    "seventy": (10, 70, 1),
    "ninety": (10, 90, 4),
    "eighty": (3, 80, 2),
    "none": (5, 0, 1),
    "too-few": (2, 50, 3),
}


async def test_each_example_of_the_documents_from_creation_to_settled_and_scaled_up_and_down(
    control_plane: ControlPlane, client: Client, namespace: str, home: str, kwok_nodes: AddNodes
):
    kwok_nodes("2 zone=a class=spot"), kwok_nodes("2 zone=a class=on-demand")
    settings = config(home, namespace, when_min_exceeds_replicas="on-demand")
    async with operating(control_plane, namespace, settings) as running:
        made = {}
        for name, (replicas, percentage, minimum) in EXAMPLES.items():
            made[name] = await Workload(client, namespace, name).create(replicas, asking(percentage, minimum))
        for name, (replicas, percentage, minimum) in EXAMPLES.items():
            wanted = target(replicas, Share(minimum, percentage, Rounding.DOWN))
            await made[name].settled(wanted.spot, wanted.on_demand)
        assert evictions(running) == 0, "admission placed every one of them right"
        for count in (100, 3):
            await made["normal"].scale(count)
            wanted = target(count, Share(2, 60))
            await made["normal"].settled(wanted.spot, wanted.on_demand)


async def test_from_seventy_to_thirty_percent_of_a_hundred_under_a_budget_once_the_window_opens(
    control_plane: ControlPlane, client: Client, namespace: str, home: str, kwok_nodes: AddNodes
):
    kwok_nodes("2 zone=a class=spot"), kwok_nodes("2 zone=a class=on-demand")
    later = (datetime.now(UTC) + timedelta(hours=12)).hour
    closed = {SCHEDULE: f"0 {later} * * *", DURATION: "1h"}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    async with (
        operating(control_plane, namespace, config(home, namespace, moving_percentage=10)) as running,
        Direct(Upstream.from_kubeconfig(control_plane.kubeconfig)) as direct,
    ):
        web = await Workload(client, namespace, "web").create(100, {**asking(70, 5), **closed})
        await web.guard("10%")
        await web.settled(70, 30, seconds=120)
        before = {pod.uid for pod in await web.pods()}
        async with History(direct, [pods]) as history:
            await web.annotate({SPOT_PERCENTAGE: "30%"})
            await eventually(lambda: blocked(running, "WindowClosed"), "a closed window to hold it up")
            assert {pod.uid for pod in await web.pods()} == before
            await web.annotate({SCHEDULE: "* * * * *"})
            await web.settled(30, 70, seconds=240)
            await history.caught_up()
            fewest = min(sum(map(is_ready, found)) for _, found in pod_states(history, "web"))
            assert fewest >= 90, "S4: the budget held at every revision"
            gone = {r.uid for r in history.revisions() if r.change == "DELETED"}
        assert len(gone) == 40, "forty moves, and not one too many"
        assert evictions(running) == 40


async def test_a_rollout_in_the_middle_of_it_comes_first_and_all_ends_well(
    control_plane: ControlPlane, client: Client, namespace: str, home: str, kwok_nodes: AddNodes
):
    kwok_nodes("2 zone=a class=spot"), kwok_nodes("2 zone=a class=on-demand")
    async with operating(control_plane, namespace, config(home, namespace)) as running:
        web = await Workload(client, namespace, "web").create(12, asking(100))
        await web.settled(12, 0)
        await web.annotate({SPOT_PERCENTAGE: "25%"})
        await eventually(lambda: evictions(running) >= 2, "moves under way")
        await web.patch({"spec": {"template": {"metadata": {"annotations": {"version": "two"}}}}})

        async def rolled_out() -> bool:
            return all(pod.annotations.get("version") == "two" for pod in await web.pods())

        await eventually(rolled_out, "the new version everywhere")
        await web.settled(3, 9)


async def test_a_restart_in_the_middle_of_a_cooldown_does_not_shorten_it(
    control_plane: ControlPlane, client: Client, namespace: str, home: str, kwok_nodes: AddNodes
):
    kwok_nodes("2 zone=a class=spot"), kwok_nodes("2 zone=a class=on-demand")
    settings = config(home, namespace, cooldown=timedelta(hours=1))
    async with operating(control_plane, namespace, settings) as running:
        web = await Workload(client, namespace, "web").create(6, asking(100))
        await web.settled(6, 0)
        await web.annotate({SPOT_PERCENTAGE: "50%"})
        await web.settled(5, 1)
        await eventually(lambda: blocked(running, "Cooldown"), "the cooldown")
    clock = PushedClock()
    async with operating(control_plane, namespace, settings, "two", clock=clock) as running:
        await eventually(lambda: blocked(running, "Cooldown"), "the same cooldown after a restart")
        assert evictions(running) == 0
        clock.wall_offset = timedelta(hours=1)
        await web.annotate({"look": "again"})
        await web.settled(4, 2)
        await eventually(lambda: blocked(running, "Cooldown"), "the next cooldown")
        assert evictions(running) == 1


async def test_a_failover_in_the_middle_of_a_cooldown_does_not_shorten_it(
    control_plane: ControlPlane, client: Client, namespace: str, home: str, kwok_nodes: AddNodes
):
    """Two operators at once: the one that waited takes the cooldown over with the lead."""
    kwok_nodes("2 zone=a class=spot"), kwok_nodes("2 zone=a class=on-demand")
    settings = config(home, namespace, cooldown=timedelta(hours=1))
    async with (
        operating(control_plane, namespace, settings) as first,
        standing_by(control_plane, settings, "two") as second,
    ):
        web = await Workload(client, namespace, "web").create(6, asking(100))
        await web.settled(6, 0)
        await web.annotate({SPOT_PERCENTAGE: "50%"})
        await web.settled(5, 1)
        await eventually(lambda: blocked(first, "Cooldown"), "the cooldown")
        assert not second.operator.leading
        first.stop.set()
        await eventually(lambda: blocked(second, "Cooldown"), "the same cooldown after a failover")
        assert (evictions(first), evictions(second)) == (1, 0)


async def test_a_successor_goes_on_where_the_leader_stopped(
    control_plane: ControlPlane, client: Client, namespace: str, home: str, kwok_nodes: AddNodes
):
    """Two operators at once, and the one that leads stops in the middle of a rebalance."""
    kwok_nodes("2 zone=a class=spot"), kwok_nodes("2 zone=a class=on-demand")
    async with operating(control_plane, namespace, config(home, namespace)) as first:
        web = await Workload(client, namespace, "web").create(12, asking(100))
        await web.settled(12, 0)
        standby = asyncio.create_task(_follow(control_plane, namespace, home, web))
        await web.annotate({SPOT_PERCENTAGE: "25%"})
        await eventually(lambda: evictions(first) >= 2, "moves under way")
        first.stop.set()
        await standby


async def _follow(control_plane: ControlPlane, namespace: str, home: str, web: Workload) -> None:
    async with operating(control_plane, namespace, config(home, namespace), "two"):
        await web.settled(3, 9)


async def test_spot_runs_short_and_comes_back(
    control_plane: ControlPlane, client: Client, namespace: str, home: str, kwok_nodes: AddNodes
):
    spot = kwok_nodes("2 zone=a class=spot")
    kwok_nodes("2 zone=a class=on-demand")
    await cordon(client, spot, closed=True)
    clock = PushedClock()
    settings = config(home, namespace, spot_fallback_after=timedelta(seconds=1))
    async with operating(control_plane, namespace, settings, clock=clock) as running:
        web = await Workload(client, namespace, "web").create(10, asking(60, 2))
        await web.settled(0, 10)
        await eventually(lambda: blocked(running, "SpotHeldBack"), "holding back")
        await cordon(client, spot, closed=False)
        clock.wall_offset = timedelta(minutes=6)
        await web.annotate({"look": "again"})
        await web.settled(6, 4)
        assert (await web.split())[SPOT] == 6


async def test_a_stateful_set_moves_the_highest_ordinals_first(
    control_plane: ControlPlane, client: Client, namespace: str, home: str, kwok_nodes: AddNodes
):
    """It ran on on-demand nodes alone before it was managed; the highest ordinals move first, and the template stays."""
    spot = kwok_nodes("2 zone=a class=spot")
    kwok_nodes("2 zone=a class=on-demand")
    await cordon(client, spot, closed=True)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    db = await Workload(client, namespace, "db", stateful=True).create(
        6, {}, serviceName="db", podManagementPolicy="Parallel"
    )
    await db.settled(0, 6)
    await cordon(client, spot, closed=False)
    revision = (await client.get(db.kind, namespace, "db")).status.update_revision
    before = {pod.uid for pod in await db.pods()}
    async with (
        operating(control_plane, namespace, config(home, namespace)) as running,
        Direct(Upstream.from_kubeconfig(control_plane.kubeconfig)) as direct,
        History(direct, [pods]) as history,
    ):
        await db.annotate(asking(50, 1))
        await db.settled(3, 3)
        await history.caught_up()
        # Of the first six: KWOK deletes by name, and on a slow machine its second try meets the namesake that came instead.
        left = [r for r in history.revisions() if r.change == "DELETED" and r.uid in before]
        assert [one.object["metadata"]["name"] for one in left] == ["db-5", "db-3", "db-1"]
        assert evictions(running) == 3
    after = await client.get(db.kind, namespace, "db")
    assert after.status.update_revision == revision == after.status.current_revision


async def test_a_stateful_set_moves_no_more_pods_than_its_counts_demand(
    control_plane: ControlPlane, client: Client, namespace: str, home: str, kwok_nodes: AddNodes
):
    """60 % to 50 % of ten is one move; a raised minimum, a restart of every pod and a scale-up and -down need none."""
    kwok_nodes("2 zone=a class=spot"), kwok_nodes("2 zone=a class=on-demand")
    async with operating(control_plane, namespace, config(home, namespace)) as running:
        db = await Workload(client, namespace, "db", stateful=True).create(
            10, asking(60, 1), serviceName="db", podManagementPolicy="Parallel"
        )
        await db.settled(6, 4)
        assert evictions(running) == 0, "admission placed every one of them right"
        await db.annotate(asking(50, 1))
        await db.settled(5, 5)
        assert evictions(running) == 1
        await db.annotate(asking(50, 4))
        before = {pod.uid for pod in await db.pods()}
        await db.patch({"spec": {"template": {"metadata": {"annotations": {"version": "two"}}}}})

        async def restarted() -> bool:
            pods = await db.pods()
            return len(pods) == 10 and before.isdisjoint(pod.uid for pod in pods)

        await eventually(restarted, "a restart of every pod", seconds=240)
        await db.settled(5, 5)
        assert evictions(running) == 1, "a recreated pod takes the class that is short"


async def test_a_stateful_sets_minimum_is_restored_after_a_scale_down_that_broke_it(
    control_plane: ControlPlane, client: Client, namespace: str, home: str, kwok_nodes: AddNodes
):
    """The lowest ordinals run on spot. Kubernetes deletes the highest ones, which were on-demand."""
    kwok_nodes("2 zone=a class=spot"), kwok_nodes("2 zone=a class=on-demand")
    async with operating(control_plane, namespace, config(home, namespace)) as running:
        db = await Workload(client, namespace, "db", stateful=True).create(
            2, asking(100), serviceName="db", podManagementPolicy="Parallel"
        )
        await db.settled(2, 0)
        await db.annotate(asking(50, 2))  # of four: two and two
        await db.scale(4)
        await db.settled(2, 2)
        assert evictions(running) == 0
        await db.scale(3)
        await db.settled(1, 2)
        assert evictions(running) == 1


async def test_switching_off_releases_pods_that_wait_for_spot(
    control_plane: ControlPlane, client: Client, namespace: str, home: str, kwok_nodes: AddNodes
):
    """Neither a disabled nor an invalid workload keeps pods that wait for a class nobody evaluates any more."""
    spot = kwok_nodes("2 zone=a class=spot")
    kwok_nodes("2 zone=a class=on-demand")
    await cordon(client, spot, closed=True)
    settings = config(home, namespace, spot_fallback_after=timedelta(seconds=5))
    async with operating(control_plane, namespace, settings):
        made = {
            "off": await Workload(client, namespace, "off").create(3, asking(100)),
            "wrong": await Workload(client, namespace, "wrong").create(3, asking(100)),
            "gone": await Workload(client, namespace, "gone", stateful=True).create(
                2, asking(100), serviceName="gone", podManagementPolicy="Parallel"
            ),
        }

        async def all_wait() -> bool:
            pods = [pod for one in made.values() for pod in await one.pods()]
            return len(pods) == 8 and not any(pod.spec.node_name for pod in pods)

        await eventually(all_wait, "eight pods that wait for spot")
        await made["off"].annotate({"spotalis.io/enabled": "false"})
        await made["wrong"].annotate({SPOT_PERCENTAGE: "a lot"})
        await made["gone"].annotate(
            {"spotalis.io/enabled": None, SPOT_PERCENTAGE: None, "spotalis.io/min-on-demand": None}
        )
        await made["off"].settled(0, 3)
        await made["wrong"].settled(0, 3)
        await made["gone"].settled(0, 2)
