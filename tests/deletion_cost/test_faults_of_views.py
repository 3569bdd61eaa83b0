"""Faults 9, 10 and 11: a server that lags, objects that change identity in a gap, kinds out of order, storms of lists."""

from __future__ import annotations

import pytest

from tests.deletion_cost.live import Live, writes
from tests.deletion_cost.scene import TOP
from tests.eventually import eventually
from tests.faults import answers, invariants
from tests.faults.faults import Answer, EndWatch, HoldEvents, StaleList, TellTwice
from tests.faults.rules import on
from tests.faults.upstream import RefusedError

KINDS = ("pods", "nodes", "deployments", "replicasets")


async def test_a_restart_onto_a_server_that_lags(live: Live) -> None:
    """In the past that its cache shows, no pod had a value, and one pod was another."""
    await live.deploy(4)
    past = (await live.direct.get(live.pod_path()))["metadata"]["resourceVersion"]
    first = await live.start()
    await live.comes_to_rest(first)
    await live.delete((await live.pods())[0])
    await live.all_ready(4)
    await live.comes_to_rest(first)
    await first.stop()
    live.rules.add(on("list get watch"), StaleList(past))
    mark = len(live.record)
    second = await live.start()
    await live.comes_to_rest(second)
    assert live.record.works(since=mark) == [], "all was well already"


async def test_a_pod_comes_back_under_its_name_in_a_gap(live: Live) -> None:
    """The patch was decided for a pod that is gone; the namesake that has its name is someone's own and gets nothing."""
    await live.deploy(3)
    refused = live.rules.add(writes, Answer(answers.unavailable))
    life = await live.start()
    await live.record.until(lambda record: len(record.of(writes)) >= 3)
    closed = live.rules.add(on("watch", "pods"), Answer(answers.unavailable))
    life.link.drop(on("watch", "pods"))
    await eventually(lambda: closed.struck > 0, "the watch is broken")
    old = (await live.pods())[0]
    await live.delete(old)
    body = {"metadata": {"name": old["metadata"]["name"]}, "spec": {"containers": [{"name": "own", "image": "none"}]}}

    async def made() -> bool:
        try:
            await live.direct.create(live.pod_path(), body)
        except Exception:  # noqa: BLE001 - the old one is still leaving
            return False
        return True

    await eventually(made, "the namesake is there")
    mark = len(live.record)
    live.rules.drop(refused)
    await live.record.until(lambda record: len(record.of(writes, since=mark)) >= 1)
    live.rules.drop(closed)

    async def others_have_values() -> bool:
        return len(await live.costs()) == 3

    await eventually(others_have_values, "the three pods of the Deployment have values")
    try:
        namesake = await live.direct.get(live.pod_path(old["metadata"]["name"]))
    except RefusedError:
        return  # KWOK ends pods by name alone, and a late word about the old one may have taken the new one along
    assert not namesake["metadata"].get("annotations")
    invariants.changes_insist_on_what_was_seen(live.record)
    await live.direct.delete(live.pod_path(old["metadata"]["name"]))


@pytest.mark.parametrize("last", KINDS)
async def test_one_kind_comes_last(live: Live, last: str) -> None:
    held = HoldEvents()
    live.rules.add(on("watch", last), held)
    life = await live.start()
    await eventually(lambda: not life.operator.view.stale, "the view is live, and empty of what follows")
    await live.deploy(3)
    held.released.set()
    await live.comes_to_rest(life)
    assert set((await live.costs()).values()) == {TOP}
    assert len(live.written()) == 3


async def test_everything_twice(live: Live) -> None:
    for kind in KINDS:
        live.rules.add(on("watch", kind), TellTwice())
    life = await live.start()
    await live.deploy(6)
    await live.comes_to_rest(life)
    assert len(live.written()) == 6


async def test_a_storm_of_lists(live: Live) -> None:
    for kind in KINDS:
        live.rules.add(on("watch", kind), EndWatch("expired", passing=1), times=3)
    life = await live.start()
    await live.deploy(6)
    await live.comes_to_rest(life)
    assert len(live.written()) == 6
