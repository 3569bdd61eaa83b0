"""Time as a value: the same seed gives the same history, an hour can be a minute, a day no time at all."""

from __future__ import annotations

import asyncio
import hashlib
import json
from datetime import timedelta

import pytest

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import name_of
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.embedded_cluster.clocks import EPOCH, ScaledClock, VirtualClock, run_virtually
from plimsoll.embedded_cluster.timers import Timers
from tests.embedded_cluster.scene import cluster, deployment, patch, ready_pods, virtually


async def _history(seed: int) -> str:
    """A digest of every change of an eventful hour."""
    digest = hashlib.sha256()
    async with cluster(*(f"2 zone={zone} class=spot" for zone in "abc"), seed=seed) as made:

        def note(change: ObjectChange) -> None:
            digest.update(change.type.encode() + json.dumps(change.object, sort_keys=True).encode())

        made.api.storage.listeners.append(note)
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=8))
        for step in range(6):
            await asyncio.sleep(600)
            nodes = made.all(kinds.NODES)
            made.reclaim(name_of(nodes[step % len(nodes)]))
            await made.add_nodes("1 zone=a class=spot")
            await patch(made, kinds.DEPLOYMENTS, "web", {"spec": {"replicas": 5 + step * 2}})
        await asyncio.sleep(600)
        assert len(ready_pods(made)) == 15
    return digest.hexdigest()


def test_a_seed_decides_everything() -> None:
    first, requeue_after, other = (run_virtually(_history(seed)) for seed in (1, 1, 2))
    assert first == requeue_after
    assert first != other


@virtually
async def test_a_day_passes_in_its_steps() -> None:
    clock = VirtualClock()
    seen = []
    timers = Timers(clock)
    timers.call_later(3600, lambda: seen.append("hour"))
    timers.call_later(60, lambda: seen.append("minute"))
    entry = timers.call_later(120, lambda: seen.append("never"))
    entry.cancel()
    timers.call_later(86_400, lambda: seen.append("day"))
    await asyncio.sleep(100)
    assert seen == ["minute"]
    timers.call_later(1, lambda: seen.append("sooner"))
    await asyncio.sleep(86_400)
    assert seen == ["minute", "sooner", "hour", "day"]
    assert clock.now() == EPOCH + timedelta(seconds=86_500)


@virtually
async def test_what_is_due_at_once_comes_in_order() -> None:
    timers, seen = Timers(VirtualClock()), list[int]()

    def spawn() -> None:
        seen.append(0)
        timers.call_later(0, lambda: seen.append(3))

    timers.call_later(5, spawn)
    timers.call_later(5, lambda: seen.append(1))
    timers.call_later(5, lambda: seen.append(2))
    await asyncio.sleep(6)
    assert seen == [0, 1, 2, 3]


@virtually
async def test_a_scaled_clock_runs_faster_than_its_loop() -> None:
    clock = ScaledClock(60)
    began, loop = clock.now(), asyncio.get_running_loop()
    started = loop.time()
    await clock.sleep(3600)
    assert loop.time() - started == pytest.approx(60)
    assert (clock.now() - began).total_seconds() == pytest.approx(3600)


@virtually
async def test_a_clock_that_does_not_move_is_refused() -> None:
    with pytest.raises(ValueError, match="speed is 0"):
        ScaledClock(0)
