"""Fault 4: n conflicts in a row. Each attempt insists on what was seen last, and once it succeeds nothing more is written."""

from __future__ import annotations

import asyncio

from tests.eventually import eventually
from tests.faults import answers, invariants
from tests.faults.faults import Answer
from tests.faults.rules import on, works
from tests.faults.runs import Run, config
from tests.faults.scene import Scene


async def test_conflicts_in_a_row_end_in_one_write_each(scene: Scene) -> None:
    await scene.deploy(leaving=1)
    conflicts = scene.rules.add(on("patch", "pods"), Answer(answers.conflict), times=5)
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)
    await run.stop()
    assert conflicts.struck == 5
    invariants.all_of(scene)


async def test_an_eviction_that_conflicts(scene: Scene) -> None:
    await scene.deploy(leaving=1)
    conflicts = scene.rules.add(on("create", "pods/eviction"), Answer(answers.conflict), times=2)
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)
    await run.stop()
    assert conflicts.struck == 2
    invariants.all_of(scene)


async def test_real_conflicts_with_someone_who_keeps_writing(scene: Scene) -> None:
    """Others write to the same pods all the time: the server itself refuses what was decided on an older version."""
    pods = await scene.deploy(leaving=1)
    stop = asyncio.Event()

    async def disturb() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            await scene.annotate("pods", pods[-1]["metadata"]["name"], {"example.org/turn": str(turn)})

    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    others = asyncio.create_task(disturb())
    await eventually(scene.reached, "the cluster gets there in spite of them")
    stop.set()
    await others
    await scene.comes_to_rest(run)
    await run.stop()
    invariants.all_of(scene)


async def test_nothing_is_written_twice_after_a_conflict_on_everything(scene: Scene) -> None:
    await scene.deploy(leaving=1)
    conflicts = scene.rules.add(works, Answer(answers.conflict), times=4)
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)
    await run.stop()
    assert conflicts.struck == 4
    invariants.all_of(scene)
