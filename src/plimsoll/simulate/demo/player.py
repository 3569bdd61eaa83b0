"""Playing a story on a world, chapter by chapter, and what came of each."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from plimsoll.simulate.custom_kinds import install
from plimsoll.simulate.demo.chapters import Chapter
from plimsoll.simulate.demo.scene import CONFIG, NODES
from plimsoll.simulate.world import World

# Time for everything to be ready before the first chapter, and for a reader between two.
_SETTLE_SECONDS = 60.0
_STEP_SECONDS = 1.0


class Told(Struct, frozen=True, rename="camel"):
    """How a chapter ended."""

    title: str
    reached: bool
    seconds: float
    evictions: int
    result: str


class Telling:
    """A story under way; `told` grows, and `current` is the chapter in hand."""

    def __init__(self, world: World, story: Sequence[Chapter], *, pause_seconds: float = 0.0) -> None:
        self._world = world
        self._story = story
        self._pause = pause_seconds
        self.told: list[Told] = []
        self.current: Chapter | None = None
        self._is_over = False

    @property
    def heading(self) -> str:
        if self.current is not None:
            return f"{len(self.told) + (not self._has_ended)} of {len(self._story)}: {self.current.title}"
        return "The end" if self._is_over else "A cluster comes up"

    @property
    def explanation(self) -> str:
        if self.current is not None:
            return f"{self.current.says} → {self.told[-1].result}." if self._has_ended else self.current.says
        if self._is_over:
            return "The operator goes on working. Try the keys, or kubectl; q ends."
        return "Three zones, each with spot and on-demand nodes; nothing runs on them yet."

    @property
    def _has_ended(self) -> bool:
        """Whether the current chapter is told, and time is left to read it."""
        return self.current is not None and bool(self.told) and self.told[-1].title == self.current.title

    async def prepare(self) -> None:
        for line in NODES:
            await self._world.cluster.add_nodes(line)
        await install(self._world.cluster, CONFIG.allocation.namespace)
        await self._world.start_operator()
        await self._world.pass_time(_SETTLE_SECONDS)

    async def play(self) -> None:
        world = self._world
        for chapter in self._story:
            self.current = chapter
            began, before = world.clock.monotonic(), world.witness.evictions
            await chapter.happens(world)
            while not chapter.ends(world) and world.clock.monotonic() - began < chapter.within_seconds:
                await world.pass_time(_STEP_SECONDS)
            self.told.append(
                Told(
                    chapter.title,
                    chapter.ends(world),
                    round(world.clock.monotonic() - began, 1),
                    world.witness.evictions - before,
                    chapter.ended(world),
                )
            )
            await world.pass_time(self._pause)
        self.current, self._is_over = None, True
