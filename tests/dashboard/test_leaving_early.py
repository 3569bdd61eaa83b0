"""A client that goes away while its snapshot is made takes nothing away from the others."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from plimsoll.dashboard import cluster_snapshot as snapshot_module
from plimsoll.dashboard.broadcaster import Broadcaster, StreamClient
from tests import build
from tests.dashboard.scene import Scene, merged, read, shown


@pytest.fixture(autouse=True)
def _a_turn_for_every_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_module, "SLICE_SECONDS", 0.0)


def told(client: StreamClient) -> dict:  # type: ignore[type-arg]
    """What the client has been told so far, put together as the page does."""
    page: dict = {}  # type: ignore[type-arg]
    while not client.waiting.empty():
        head, data = client.waiting.get_nowait().plain.split(b"data: ", 1)
        if b"event: beat" not in head:
            page = merged(page, read(data)) if page else read(data)
    return page


@pytest.mark.parametrize("turns", [1, 2, 3, 5, 8])
async def test_nothing_is_lost_to_those_who_stay(turns: int) -> None:
    scene = Scene()
    broadcaster = Broadcaster(scene.snapshot())
    staying = StreamClient("snapshot", disconnect=lambda: None)
    await broadcaster.join(staying)
    scene.put(*(build.pod(f"p{number}", node=f"n{number % 3 + 1}") for number in range(6)))
    scene.put(*(build.pod(f"w{number}", node="", phase="Pending") for number in range(4)))
    leaving = StreamClient("snapshot", disconnect=lambda: None)
    joining = asyncio.create_task(broadcaster.join(leaving))
    for _ in range(turns):
        await asyncio.sleep(0)
    joining.cancel()
    await asyncio.gather(joining, return_exceptions=True)
    broadcaster.leave(leaving)
    whole = read((await broadcaster.whole()).plain)
    assert len(whole["pending"]) == 4
    assert shown(told(staying)) == shown(whole)
    assert broadcaster.clients == {staying}


async def test_a_record_that_cannot_be_made_costs_only_itself() -> None:
    scene = Scene()
    snapshot = scene.snapshot()
    broadcaster = Broadcaster(snapshot)
    made = snapshot.nodes._record

    def broken(name: str):
        if name == "n2":
            raise RuntimeError("a bug")
        return made(name)

    snapshot.nodes._record = broken
    with capture_logs() as logs:
        found = read((await broadcaster.whole()).plain)
    assert found["nodes"].keys() == {"n1", "n3"}
    assert [one["name"] for one in logs if one["log_level"] == "error"] == ["n2"]
