"""Faults of every sort at once, drawn from a seed: whatever they do, the rules of safety hold, and once they stop the cluster
gets where it should be and stays there.

A failing seed is named with all of its requests; `PLIMSOLL_FAULT_SEEDS=17,23 pytest tests/faults/test_campaigns.py` runs it
again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import pytest

from tests.eventually import eventually
from tests.faults import invariants
from tests.faults.example import kept_name
from tests.faults.runs import NO_ELECTION, SHORT_LEASE, config, supervised
from tests.faults.scene import Scene
from tests.faults.seeds import FaultPlan

NewScene = Callable[[FaultPlan], AbstractAsyncContextManager[Scene]]

# A campaign may end in back-offs of half a minute, one after the other.
PATIENCE_SECONDS = 240.0
SIDE_BY_SIDE = 6


def _seeds(default: Iterable[int]) -> list[int]:
    chosen = os.environ.get("PLIMSOLL_FAULT_SEEDS", "")
    return [int(seed) for seed in chosen.split(",") if seed] or list(default)


async def test_a_few_campaigns(new_scene: NewScene) -> None:
    await _run_all(new_scene, _seeds(range(1, 5)))


@pytest.mark.soak
@pytest.mark.timeout(7200)
async def test_many_campaigns(new_scene: NewScene) -> None:
    await _run_all(new_scene, _seeds(range(100, 400)))


async def _run_all(new_scene: NewScene, seeds: Iterable[int]) -> None:
    places = asyncio.Semaphore(SIDE_BY_SIDE)
    failures: list[Exception] = []

    async def run(seed: int) -> None:
        async with places:
            try:
                await _campaign(new_scene, seed)
            except Exception as error:  # noqa: BLE001 (every seed is tried, and all that failed are reported)
                error.add_note(str(FaultPlan.from_seed(seed)))
                failures.append(error)

    await asyncio.gather(*(run(seed) for seed in seeds))
    if failures:
        raise ExceptionGroup(f"{len(failures)} campaigns failed", failures)


async def _campaign(new_scene: NewScene, seed: int) -> None:
    """Keep a workload, have two of its pods leave, let it go. Every third seed has two operators and an election."""
    plan = FaultPlan.from_seed(seed)
    kind = "StatefulSet" if seed % 2 else "Deployment"
    election, names = (SHORT_LEASE, ("a", "b")) if seed % 3 == 0 else (NO_ELECTION, ("a",))
    async with new_scene(plan) as scene, AsyncExitStack() as stack:
        await scene.deploy(kind=kind, leaving=1)
        settings = config(scene.namespace, election=election)
        operators = [await stack.enter_async_context(supervised(scene.proxy, name, settings)) for name in names]
        await eventually(scene.reached, "the workload is kept", seconds=PATIENCE_SECONDS)
        await scene.ask_to_leave((await scene.pods("web"))[-1])
        await eventually(scene.reached, "another pod has left", seconds=PATIENCE_SECONDS)
        await scene.let_go()
        await eventually(scene.reached, "the workload is let go", seconds=PATIENCE_SECONDS)
        await eventually(lambda: all(not operator.current.operator.view.stale for operator in operators))
        await scene.history.caught_up()
        invariants.all_of(scene)
        invariants.created_once(scene.history, scene.path("configmaps"), kept_name("web"))
