"""Two installations with the same node groups on the real control plane: nodes are bought once, and both say what they saw."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.eventually import eventually
from tests.nodegroups.live import Stage, config, operating
from tools.controlplane.cluster import ControlPlane


@pytest.fixture
def other_home(control_plane: ControlPlane) -> Iterator[str]:
    name = control_plane.add_namespace("another")
    yield name
    control_plane.remove_namespace(name)


async def test_who_was_there_first_goes_on(control_plane: ControlPlane, stage: Stage, other_home: str) -> None:
    await stage.group("workers", minNodes=1)
    async with operating(control_plane, config(stage.namespace)) as first:
        await stage.settled(1)
        async with operating(control_plane, config(other_home), name="two") as second:

            async def told() -> bool:
                return any(other_home in event.note for event in await stage.events("AnotherInstallation"))

            await eventually(told, "the second one says that it leaves the group to the first")
            await stage.workload("web", 4)
            await stage.settled(2, pods=4)
            made = {"controller": "nodegroups", "action": "Create", "result": "done"}
            assert first.counted("plimsoll_actions_total", **made) == 2, "not one for each of them"
            assert second.counted("plimsoll_actions_total", **made) == 0
