"""The questions that scale-up and scale-down ask the packing engine, and who answers them: inline, or a worker process.

A decision does no I/O and packing thousands of pods would delay every webhook answer. So a decision about a large cluster leaves its
question with `WorkerPlanner` and ends without an answer; `PlannerWorker` has the worker process answer it and requeues the key, and
the next decision finds the answer. An answer holds while the question is the same in substance: other changes of the
cluster show in the next question, and everything is read live before anything is destroyed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

import structlog
from msgspec import Struct

from plimsoll.controllers.nodegroups.scale_up.balance import balanced
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import Key
from plimsoll.runtime.clock import Clock
from plimsoll.scheduling.gc_pause import gc_paused
from plimsoll.scheduling.model import ComingNode, Packing, Removal, Template
from plimsoll.scheduling.pack import PackingRequest, packing_request, solve
from plimsoll.scheduling.removal import removable
from plimsoll.scheduling.snapshot import Snapshot
from plimsoll.scheduling.worker import Worker, WorkerFailed

log = structlog.get_logger()

# Up to this many nodes and pods an answer takes a few milliseconds, less than the transfer to the worker process.
SMALL = 300
# An older answer is discarded and the question is asked again.
MAX_ANSWER_AGE = timedelta(seconds=30)


class ScaleUpQuestion(Struct, frozen=True):
    """Which new nodes do these pods need?"""

    pods: tuple[Pod, ...]
    templates: tuple[Template, ...]
    coming: tuple[ComingNode, ...]
    excluded: tuple[str, ...]  # nodes that take no pods
    group_sizes: Mapping[str, int] | None  # current size per group if similar groups are balanced, else None

    def same_need(self, older: ScaleUpQuestion) -> bool:
        """Whether an answer to `older` is still useful: the groups are unchanged, and the pods of that time are still pending."""
        return self._frame() == older._frame() and {pod.uid for pod in older.pods} <= {pod.uid for pod in self.pods}

    def _frame(self) -> object:
        offered = [(one.name, one.max_nodes, [sold.name for sold in one.offerings]) for one in self.templates]
        return offered, [one.name for one in self.coming], self.excluded, self.group_sizes

    def task(self, snapshot: Snapshot) -> ScaleUpTask:
        with packing_request(snapshot, self.pods, self.templates, coming=self.coming, headroom=True) as question:
            return ScaleUpTask(question, self.excluded, self.group_sizes)


class ScaleUpTask(NamedTuple):
    question: PackingRequest
    excluded: tuple[str, ...]
    group_sizes: Mapping[str, int] | None

    def __call__(self) -> Packing:
        snapshot = self.question.snapshot
        with gc_paused(), snapshot.trial():
            for name in self.excluded:
                snapshot.remove_node(name)
            packing = solve(self.question)
            if self.group_sizes is None:
                return packing
            return balanced(
                packing,
                self.question.templates,
                self.group_sizes,
                lambda limited: solve(self.question._replace(templates=tuple(limited))),
            )


class RemovalQuestion(Struct, frozen=True):
    """Which of these nodes could be removed, one after the other, once the pending pods have been placed?"""

    candidates: tuple[str, ...]
    excluded: tuple[str, ...]
    pending: tuple[Pod, ...]

    def same_need(self, older: RemovalQuestion) -> bool:
        return (self.candidates, self.excluded) == (older.candidates, older.excluded)

    def task(self, snapshot: Snapshot) -> RemovalTask:
        places = tuple((pod.uid, pod.name, *snapshot.classes.of(pod)) for pod in self.pending)
        with packing_request(snapshot, self.pending, (), coming=(), headroom=False) as question:
            return RemovalTask(question, self.candidates, self.excluded, places)


class RemovalTask(NamedTuple):
    question: PackingRequest  # where the pending pods would run
    candidates: tuple[str, ...]
    excluded: tuple[str, ...]
    pending: tuple[tuple[str, str, int, int], ...]  # UID, name, class and shape of each pod

    def __call__(self) -> list[Removal]:
        snapshot = self.question.snapshot
        with gc_paused(), snapshot.trial():
            for name in self.excluded:
                snapshot.remove_node(name)
            if self.pending:
                placements = solve(self.question).placements
                for uid, name, class_index, shape_index in self.pending:
                    if uid in placements:
                        snapshot.add_alike(uid, name, class_index, shape_index, placements[uid])
            return removable(snapshot, self.candidates)


class Planner(Protocol):
    """Answers questions. None means that the answer is not available yet; the key is requeued when it is."""

    def packing(self, key: Key, question: ScaleUpQuestion, snapshot: Snapshot) -> Packing | None: ...

    def removals(self, key: Key, question: RemovalQuestion, snapshot: Snapshot) -> Sequence[Removal] | None: ...


class InlinePlanner:
    """Answers while the decision runs: for explanations, simulations and small clusters."""

    def packing(self, key: Key, question: ScaleUpQuestion, snapshot: Snapshot) -> Packing | None:  # noqa: ARG002
        return question.task(snapshot)()

    def removals(self, key: Key, question: RemovalQuestion, snapshot: Snapshot) -> Sequence[Removal] | None:  # noqa: ARG002
        return question.task(snapshot)()


class _Answered(NamedTuple):
    question: ScaleUpQuestion | RemovalQuestion
    answer: Any
    at: float


class _CachedAnswer(NamedTuple):
    """An answer that is exact for this question as long as the snapshot has not changed."""

    question: ScaleUpQuestion | RemovalQuestion
    snapshot: Snapshot
    version: int
    answer: Any


class WorkerPlanner:
    """Answers small questions inline and leaves large ones to the worker process while a `PlannerWorker` runs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answered: dict[tuple[Key, type], _Answered] = {}
        self._cached: dict[type, _CachedAnswer] = {}  # the last answer per kind of question
        self._open: dict[tuple[Key, type], tuple[ScaleUpQuestion | RemovalQuestion, Snapshot]] = {}
        self.question_added = asyncio.Event()
        self._served = False

    @contextmanager
    def served(self) -> Iterator[None]:
        """While a worker answers the open questions. Otherwise, as in `explain`, every question is answered inline."""
        self._served = True
        try:
            yield
        finally:
            self._served = False

    def packing(self, key: Key, question: ScaleUpQuestion, snapshot: Snapshot) -> Packing | None:
        found: Packing | None = self._answer(key, question, snapshot, len(snapshot.rows) + len(question.pods))
        return found

    def removals(self, key: Key, question: RemovalQuestion, snapshot: Snapshot) -> Sequence[Removal] | None:
        found: Sequence[Removal] | None = self._answer(key, question, snapshot, len(snapshot.rows))
        return found

    def _answer(self, key: Key, question: Any, snapshot: Snapshot, size: int) -> Any:
        if size <= SMALL or not self._served:
            return self._inline(question, snapshot)
        place = (key, type(question))
        known = self._answered.get(place)
        if known is not None:
            fresh = self._clock.monotonic() - known.at <= MAX_ANSWER_AGE.total_seconds()
            if fresh and question.same_need(known.question):
                return known.answer
            del self._answered[place]
        self._open[place] = (question, snapshot)
        self.question_added.set()
        return None

    def _inline(self, question: ScaleUpQuestion | RemovalQuestion, snapshot: Snapshot) -> Any:
        """Cached because groups are decided twice a minute even if nothing happens."""
        known = self._cached.get(type(question))
        if (
            known is not None
            and known.snapshot is snapshot
            and known.version == snapshot.version
            and known.question == question
        ):
            return known.answer
        found = question.task(snapshot)()
        self._cached[type(question)] = _CachedAnswer(question, snapshot, snapshot.version, found)
        return found

    def take(self) -> tuple[tuple[Key, type], ScaleUpQuestion | RemovalQuestion, Snapshot] | None:
        """The oldest open question."""
        if not self._open:
            self.question_added.clear()
            return None
        place, (question, snapshot) = next(iter(self._open.items()))
        del self._open[place]
        return place, question, snapshot

    def record(self, place: tuple[Key, type], question: ScaleUpQuestion | RemovalQuestion, found: Any) -> None:
        self._answered[place] = _Answered(question, found, self._clock.monotonic())


class PlannerWorker:
    """Runs the worker process and has it answer the open questions of a `WorkerPlanner`."""

    controller = "nodegroups"

    def __init__(self, planner: WorkerPlanner, clock: Clock, worker: Callable[[], Worker] = Worker) -> None:
        self._planner, self._clock, self._worker = planner, clock, worker

    async def run(self, view: View, leading: Callable[[], bool], look_at: Callable[[Key], None]) -> None:  # noqa: ARG002
        with self._planner.served():
            async with self._worker() as worker:
                while True:
                    await self._planner.question_added.wait()
                    taken = self._planner.take()
                    if taken is None:
                        continue
                    place, question, snapshot = taken
                    task: Any = question.task(snapshot)
                    await asyncio.sleep(0)  # the transfer takes as long again: let other tasks run in between
                    try:
                        found = await worker.run(task)
                    except WorkerFailed as error:
                        log.warning(
                            "the worker process failed; the plan is computed again", key=str(place[0]), error=str(error)
                        )
                        await self._clock.sleep(1.0)
                    else:
                        self._planner.record(place, question, found)
                    look_at(place[0])
