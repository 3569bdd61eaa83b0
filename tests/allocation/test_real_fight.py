"""Two operator processes fight for the same nodes while they are stopped, resumed and killed at random, and containers come
and go. In the whole history of the store no drive and no port is given twice."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable

import pytest

from tests.allocation.environment import Stage
from tests.faults.processes import OperatorProcess
from tests.faults.rules import on


class Fighter:
    """An operator that is started anew whenever it is killed."""

    def __init__(self, stage: Stage, name: str, draw: random.Random) -> None:
        self._stage, self._name, self._draw = stage, name, draw
        self.lives = 0
        self.stops = 0

    async def fight(self, over: asyncio.Event) -> None:
        while not over.is_set():
            self.lives += 1
            name = f"{self._name}{self.lives}"
            async with await OperatorProcess.start(
                self._stage.proxy, name, self._stage.namespace, module="tests.allocation.run_allocator"
            ) as one:
                while not over.is_set() and one.check_alive() and not self._works(name):
                    await _pause(over, 0.1)  # it must come up first
                await _pause(over, self._draw.uniform(0, 2))
                for _ in range(self._draw.randrange(1, 4)):
                    one.pause()
                    self.stops += 1
                    # Often beyond the lease of three seconds, with requests half sent.
                    await _pause(over, self._draw.choice([0.3, 1.0, 4.0]))
                    one.resume()
                    await _pause(over, self._draw.uniform(0.5, 3))
                one._send(signal.SIGKILL)

    def _works(self, name: str) -> bool:
        """Whether this process has written to a container."""
        return any(one.applied for one in self._stage.record.of(on("patch", "wekacontainers/status", link=name)))

    @property
    def worked(self) -> int:
        return sum(self._works(f"{self._name}{life}") for life in range(1, self.lives + 1))


async def _pause(over: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await over.wait()
    except TimeoutError:
        return


async def _churn(stage: Stage, nodes: list[str], draw: random.Random, over: asyncio.Event) -> int:
    """Containers come and go; drives are short, so that what is freed is wanted."""
    made, alive = 0, list[str]()
    while not over.is_set():
        if len(alive) < 30 and draw.random() < 0.65:
            name = f"c{made:04}"
            made += 1
            await stage.container(name, node=draw.choice(nodes), drives=draw.randrange(1, 4))
            alive.append(name)
        elif alive:
            await stage.delete(alive.pop(draw.randrange(len(alive))))
        await _pause(over, draw.uniform(0.02, 0.3))
    return made


async def _campaign(stage: Stage, *, seconds: float, lives: int, seed: int) -> None:
    """For at least so long, and until each of the two has allocated something in so many lives."""
    draw = random.Random(seed)
    nodes = [await stage.node(*(f"S{n}" for n in range(12))) for _ in range(2)]
    over = asyncio.Event()
    fighters = [Fighter(stage, name, random.Random(f"{seed}/{name}")) for name in ("a", "b")]
    fights = [asyncio.create_task(fighter.fight(over)) for fighter in fighters]
    churn = asyncio.create_task(_churn(stage, nodes, draw, over))
    try:
        await _pause(over, seconds)
        while any(fighter.worked < lives for fighter in fighters):
            assert not any(fight.done() for fight in fights), "an operator ended by itself"
            await _pause(over, 0.2)
    finally:
        over.set()
        await asyncio.gather(*fights)
    made = await churn
    await stage.judged()
    # L1, L4: once they stop fighting, one operator brings it to its end.
    async with stage.operator("last") as operator:
        await operator.look()
        await _until(lambda: _settled(stage))
    assert made > 10
    assert all(fighter.stops for fighter in fighters)


async def _settled(stage: Stage) -> bool:
    items = (await stage.direct.get(stage.path))["items"]
    conditions = [one["type"] for item in items for one in item.get("status", {}).get("conditions", ())]
    return "AllocationProposed" not in conditions


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.1)


@pytest.mark.timeout(300)
async def test_two_processes_fight_for_a_while(stage: Stage) -> None:
    await _campaign(stage, seconds=10, lives=2, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [2, 3])
async def test_two_processes_fight_for_minutes(stage: Stage, seed: int) -> None:
    await _campaign(stage, seconds=180, lives=5, seed=seed)
