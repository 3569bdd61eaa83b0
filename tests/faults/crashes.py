"""The same scenario with a crash at the first write, at the second, and so on to the last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from tests.eventually import eventually
from tests.faults import invariants
from tests.faults.example import kept_name
from tests.faults.faults import Fault
from tests.faults.rules import works
from tests.faults.runs import config, supervised
from tests.faults.scene import Scene

NewScene = Callable[[], AbstractAsyncContextManager[Scene]]


async def crash_at_every_write(new_scene: NewScene, fault: Fault) -> None:
    """A clean run tells how many writes there are; then one run for each, all at once."""
    async with new_scene() as scene:
        lives = await _tell_the_story(scene)
        writes = len(scene.record.works())
        assert lives == 1
        assert writes >= 7, "a ConfigMap, three marks, a disruption written down, an eviction and a deletion"
    async with asyncio.TaskGroup() as group:
        for nth in range(1, writes + 1):
            group.create_task(_crash_at(new_scene, fault, nth), name=f"crash at write {nth}")


async def _crash_at(new_scene: NewScene, fault: Fault, nth: int) -> None:
    async with new_scene() as scene:
        rule = scene.rules.add(works, fault, skip=nth - 1, times=1)
        lives = await _tell_the_story(scene)
        assert (rule.struck, lives) == (1, 2)


async def _tell_the_story(scene: Scene) -> int:
    """Keep three pods, one of which is to leave; then let go. Returns how many lives it took."""
    await scene.deploy(leaving=1)
    async with supervised(scene.proxy, "a", config(scene.namespace)) as operator:
        await eventually(scene.reached, "the workload is kept")
        await scene.let_go()
        await eventually(scene.reached, "the workload is let go")
        run = await operator.living()
        await run.rounds(1)
        mark = len(scene.record)
        await run.rounds(2)
        assert scene.record.works(since=mark) == [], "it goes on writing"
        lives = len(operator.lives)
    await scene.history.caught_up()
    invariants.all_of(scene)
    invariants.created_once(scene.history, scene.path("configmaps"), kept_name("web"))
    return lives
