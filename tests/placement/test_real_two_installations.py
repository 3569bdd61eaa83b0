"""Two installations that manage the same workload by different settings: one places, the other says so and moves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from plimsoll.controllers.placement.annotations import PLACED_BY
from plimsoll.controllers.placement.spec import SPOT_PERCENTAGE
from plimsoll.kube.client.client import Client
from plimsoll.kube.types.resources import EVENTS
from tests.eventually import eventually
from tests.placement.live import Workload, asking, blocked, config, evictions, operating
from tests.placement.webhook_cluster import asked
from tests.placement.webhook_cluster import operating as beside
from tools.controlplane.cluster import ControlPlane


@pytest.fixture
def other_home(control_plane: ControlPlane) -> Iterator[str]:
    """After `home` in the order of names, by which the API server asks."""
    name = control_plane.add_namespace("second")
    yield name
    control_plane.remove_namespace(name)


async def test_they_do_not_undo_each_others_moves(
    control_plane: ControlPlane,
    client: Client,
    namespace: str,
    home: str,
    other_home: str,
    kwok_nodes: Callable[[str], list[str]],
):
    kwok_nodes("1 zone=a class=spot"), kwok_nodes("1 zone=a class=on-demand")
    async with (
        operating(control_plane, namespace, config(home, namespace, rounding="down")) as one,
        beside(control_plane, config(other_home, namespace, rounding="up"), "two") as two,
    ):
        await asked(two, client, namespace)
        web = await Workload(client, namespace, "web").create(5, asking(50))
        await web.settled(2, 3)
        assert {pod.annotations[PLACED_BY] for pod in await web.pods()} == {home}, "the second finds the class chosen"
        await eventually(lambda: blocked(two, "AnotherInstallation"), "the second one wants another share, and waits")

        async def told() -> bool:
            events = (await client.list(EVENTS, namespace)).items
            return any(
                event.reason == "AnotherInstallation" and home in event.note and other_home in event.note
                for event in events
            )

        await eventually(told, "an event that names both")
        await web.annotate({SPOT_PERCENTAGE: "20%"})
        await web.settled(1, 4)
        assert (evictions(one), evictions(two)) == (1, 0)
