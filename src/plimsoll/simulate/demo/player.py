"""Plays the demo's chapters on a world and records the result of each."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from plimsoll.simulate.custom_kinds import install_custom_kinds
from plimsoll.simulate.demo.chapters import Chapter
from plimsoll.simulate.demo.scene import CONFIG, NODES
from plimsoll.simulate.world import World

# Nodes become ready and the operator starts before the first chapter.
_SETTLE_SECONDS = 60.0
_STEP_SECONDS = 1.0
# A chapter fails when nothing happens for this long: 20 seconds of real time at the default speed of 10. The longest wait of a
# chapter that works is the two minutes' notice of a reclaimed node.
STANDSTILL_SECONDS = 200.0


class ChapterResult(Struct, frozen=True, rename="camel"):
    """The result of a chapter; reached: whether it came to its expected end in time."""

    title: str
    reached: bool
    seconds: float
    evictions: int
    result: str


class DemoPlayer:
    """A demo in progress: `results` grows by one per chapter, and `current` is the chapter that plays now."""

    def __init__(self, world: World, chapters: Sequence[Chapter], *, pause_seconds: float = 0.0) -> None:
        """pause_seconds: time for the reader after each chapter, on the world's clock."""
        self._world = world
        self._chapters = chapters
        self._pause = pause_seconds
        self.results: list[ChapterResult] = []
        self.current: Chapter | None = None
        self.finished = False

    @property
    def failed(self) -> list[ChapterResult]:
        """Chapters that did not come to their expected end."""
        return [one for one in self.results if not one.reached]

    @property
    def heading(self) -> str:
        if self.current is not None:
            number = len(self.results) + (not self._has_result)
            return f"{number} of {len(self._chapters)}: {self.current.title}"
        return "The end" if self.finished else "The cluster starts"

    @property
    def explanation(self) -> str:
        if self.current is not None:
            text = self.current.explanation
            return f"{text} → {self.results[-1].result}." if self._has_result else text
        if self.finished:
            return "The operator keeps working. Try the keys, or kubectl; q quits."
        return "Three zones with spot and on-demand nodes; no workload runs yet."

    @property
    def _has_result(self) -> bool:
        """Whether the current chapter has ended and only the reader's pause remains."""
        return self.current is not None and bool(self.results) and self.results[-1].title == self.current.title

    async def prepare(self) -> None:
        """Create the nodes, start the operator, and let both settle."""
        for line in NODES:
            await self._world.cluster.add_nodes(line)
        await install_custom_kinds(self._world.cluster, CONFIG.allocation.namespace)
        await self._world.start_operator()
        await self._world.pass_time(_SETTLE_SECONDS)

    async def play(self) -> None:
        world = self._world
        for chapter in self._chapters:
            self.current = chapter
            began, before = world.clock.monotonic(), world.invariants.evictions
            await chapter.action(world)
            await self._until_done(chapter, began)
            self.results.append(
                ChapterResult(
                    chapter.title,
                    chapter.is_done(world),
                    round(world.clock.monotonic() - began, 1),
                    world.invariants.evictions - before,
                    chapter.result_text(world),
                )
            )
            await world.pass_time(self._pause)
        self.current, self.finished = None, True

    async def _until_done(self, chapter: Chapter, began: float) -> None:
        """Wait until the chapter is done, takes too long, or nothing happens any more."""
        clock, timeline = self._world.clock, self._world.invariants.timeline
        entries, progress_at = len(timeline), began
        while not chapter.is_done(self._world):
            now = clock.monotonic()
            if len(timeline) != entries:
                entries, progress_at = len(timeline), now
            if now - began >= chapter.within_seconds or now - progress_at >= STANDSTILL_SECONDS:
                return
            await self._world.pass_time(_STEP_SECONDS)
