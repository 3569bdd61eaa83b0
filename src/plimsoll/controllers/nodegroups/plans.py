"""What the packing engine is asked, and where its answers come from: worked out at once, or in a process beside the operator's.

A decision is pure and awaits nothing, and packing thousands of pods would hold up every webhook meanwhile. So a decision about a
large cluster puts its question here and goes without an answer; an observer has it answered by the worker process and looks
at the key again, which then finds the answer. It holds for as long as the need is the same: what else has happened to the cluster
meanwhile shows at the next question, and before anything is destroyed everything is looked at again, live.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

import structlog
from msgspec import Struct

from plimsoll.controllers.nodegroups.scale_up.balance import balanced
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import Key
from plimsoll.runtime.clock import Clock
from plimsoll.scheduling.gc_pause import collector_paused
from plimsoll.scheduling.model import ComingNode, Packing, Removal, Template
from plimsoll.scheduling.pack import Question, answer, asked
from plimsoll.scheduling.removal import removable
from plimsoll.scheduling.snapshot import Snapshot
from plimsoll.scheduling.worker import Worker, WorkerFailed

log = structlog.get_logger()

# With so few nodes and pods an answer takes a few milliseconds: less than it takes to hand the question over.
SMALL = 300
# An answer that nobody came for is thrown away, and the question asked again.
OLDEST_ANSWER = timedelta(seconds=30)


class Growing(Struct, frozen=True):
    """Which new nodes do these pods need?"""

    pods: tuple[Pod, ...]
    templates: tuple[Template, ...]
    coming: tuple[ComingNode, ...]
    gone: tuple[str, ...]  # nodes that take no pods
    sized: Mapping[str, int] | None  # how large each group is, where those that are alike are kept equally large

    def same_need(self, older: Growing) -> bool:
        """Whether what was answered then helps now: the groups are as they were, and those pods still wait."""
        return self._frame() == older._frame() and {pod.uid for pod in older.pods} <= {pod.uid for pod in self.pods}

    def _frame(self) -> object:
        offered = [(one.name, one.max_nodes, [sold.name for sold in one.offerings]) for one in self.templates]
        return offered, [one.name for one in self.coming], self.gone, self.sized

    def task(self, snapshot: Snapshot) -> GrowingTask:
        with asked(snapshot, self.pods, self.templates, coming=self.coming, headroom=True) as question:
            return GrowingTask(question, self.gone, self.sized)


class GrowingTask(NamedTuple):
    question: Question
    gone: tuple[str, ...]
    sized: Mapping[str, int] | None

    def __call__(self) -> Packing:
        snapshot = self.question.snapshot
        with collector_paused(), snapshot.trial():
            for name in self.gone:
                snapshot.remove_node(name)
            packing = answer(self.question)
            if self.sized is None:
                return packing
            return balanced(
                packing,
                self.question.templates,
                self.sized,
                lambda limited: answer(self.question._replace(templates=tuple(limited))),
            )


class Shrinking(Struct, frozen=True):
    """Which of these nodes could go, one after the other, once the pods that wait have taken their places?"""

    candidates: tuple[str, ...]
    gone: tuple[str, ...]
    waiting: tuple[Pod, ...]

    def same_need(self, older: Shrinking) -> bool:
        return (self.candidates, self.gone) == (older.candidates, older.gone)

    def task(self, snapshot: Snapshot) -> ShrinkingTask:
        places = tuple((pod.uid, pod.name, *snapshot.classes.of(pod)) for pod in self.waiting)
        with asked(snapshot, self.waiting, (), coming=(), headroom=False) as question:
            return ShrinkingTask(question, self.candidates, self.gone, places)


class ShrinkingTask(NamedTuple):
    question: Question  # where the pods that wait would run
    candidates: tuple[str, ...]
    gone: tuple[str, ...]
    waiting: tuple[tuple[str, str, int, int], ...]  # UID, name, class and shape of each

    def __call__(self) -> list[Removal]:
        snapshot = self.question.snapshot
        with collector_paused(), snapshot.trial():
            for name in self.gone:
                snapshot.remove_node(name)
            if self.waiting:
                placements = answer(self.question).placements
                for uid, name, class_index, shape_index in self.waiting:
                    if uid in placements:
                        snapshot.add_alike(uid, name, class_index, shape_index, placements[uid])
            return removable(snapshot, self.candidates)


class Plans(Protocol):
    """Who answers. None: the answer is not there yet."""

    def packing(self, key: Key, question: Growing, snapshot: Snapshot) -> Packing | None: ...

    def removals(self, key: Key, question: Shrinking, snapshot: Snapshot) -> Sequence[Removal] | None: ...


class AtOnce:
    """Works everything out while the decision waits: for explanations, simulations and small clusters."""

    def packing(self, key: Key, question: Growing, snapshot: Snapshot) -> Packing | None:  # noqa: ARG002 - as Plans has it
        return question.task(snapshot)()

    def removals(self, key: Key, question: Shrinking, snapshot: Snapshot) -> Sequence[Removal] | None:  # noqa: ARG002
        return question.task(snapshot)()


class _Answered(NamedTuple):
    question: Growing | Shrinking
    answer: Any
    at: float


class _WorkedOut(NamedTuple):
    """An answer that holds exactly: for this question, as long as nothing in the picture has changed."""

    question: Growing | Shrinking
    snapshot: Snapshot
    version: int
    answer: Any


class ByWorker:
    """Small questions at once, large ones by the worker process, through the observer of the same name."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answered: dict[tuple[Key, type], _Answered] = {}
        self._worked_out: dict[type, _WorkedOut] = {}  # the last of each sort of question
        self._open: dict[tuple[Key, type], tuple[Growing | Shrinking, Snapshot]] = {}
        self.asked = asyncio.Event()

    def packing(self, key: Key, question: Growing, snapshot: Snapshot) -> Packing | None:
        found: Packing | None = self._answer(key, question, snapshot, len(snapshot.rows) + len(question.pods))
        return found

    def removals(self, key: Key, question: Shrinking, snapshot: Snapshot) -> Sequence[Removal] | None:
        found: Sequence[Removal] | None = self._answer(key, question, snapshot, len(snapshot.rows))
        return found

    def _answer(self, key: Key, question: Any, snapshot: Snapshot, size: int) -> Any:
        if size <= SMALL:
            return self._at_once(question, snapshot)
        place = (key, type(question))
        known = self._answered.get(place)
        if known is not None:
            fresh = self._clock.monotonic() - known.at <= OLDEST_ANSWER.total_seconds()
            if fresh and question.same_need(known.question):
                return known.answer
            del self._answered[place]
        self._open[place] = (question, snapshot)
        self.asked.set()
        return None

    def _at_once(self, question: Growing | Shrinking, snapshot: Snapshot) -> Any:
        """Groups are looked at twice a minute though nothing happens: what was worked out then need not be again."""
        known = self._worked_out.get(type(question))
        if (
            known is not None
            and known.snapshot is snapshot
            and known.version == snapshot.version
            and known.question == question
        ):
            return known.answer
        found = question.task(snapshot)()
        self._worked_out[type(question)] = _WorkedOut(question, snapshot, snapshot.version, found)
        return found

    def take(self) -> tuple[tuple[Key, type], Growing | Shrinking, Snapshot] | None:
        """The question that waits longest."""
        if not self._open:
            self.asked.clear()
            return None
        place, (question, snapshot) = next(iter(self._open.items()))
        del self._open[place]
        return place, question, snapshot

    def enter(self, place: tuple[Key, type], question: Growing | Shrinking, found: Any) -> None:
        self._answered[place] = _Answered(question, found, self._clock.monotonic())


class PlanObserver:
    controller = "nodegroups"

    def __init__(self, plans: ByWorker, clock: Clock, worker: Callable[[], Worker] = Worker) -> None:
        self._plans, self._clock, self._worker = plans, clock, worker

    async def run(self, view: View, leading: Callable[[], bool], look_at: Callable[[Key], None]) -> None:  # noqa: ARG002
        async with self._worker() as worker:
            while True:
                await self._plans.asked.wait()
                taken = self._plans.take()
                if taken is None:
                    continue
                place, question, snapshot = taken
                task: Any = question.task(snapshot)
                await asyncio.sleep(0)  # handing it over takes as long again: others get a turn in between
                try:
                    found = await worker.run(task)
                except WorkerFailed as error:
                    log.warning("a plan was not worked out; it is asked for again", key=str(place[0]), error=str(error))
                    await self._clock.sleep(1.0)
                else:
                    self._plans.enter(place, question, found)
                look_at(place[0])
