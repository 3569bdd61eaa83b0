"""A campaign of faults from one number: the same seed strikes the same requests in the same way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from tests.faults import answers
from tests.faults.calls import Call
from tests.faults.faults import (
    Answer,
    CrashAfter,
    CrashBefore,
    DropBookmarks,
    EndWatch,
    Fault,
    LateEvents,
    Misreport,
    ResetAfter,
    ResetBefore,
    Slow,
    SlowReply,
    TellTwice,
)

Draw = Callable[[Random], Fault]

_READS: tuple[Draw, ...] = (
    lambda _: Answer(answers.throttled),
    lambda _: Answer(answers.internal_error),
    lambda _: Answer(answers.unavailable),
    lambda _: ResetBefore(),
    lambda _: ResetAfter(),
    lambda draw: Slow(draw.uniform(0.05, 0.5)),
)
_PAGES: tuple[Draw, ...] = (*_READS, lambda _: Answer(answers.expired_page))
_WATCHES: tuple[Draw, ...] = (
    lambda _: Answer(answers.expired),
    lambda _: Answer(answers.internal_error),
    lambda _: ResetBefore(),
    lambda draw: EndWatch("closed", draw.randrange(4)),
    lambda draw: EndWatch("expired", draw.randrange(4)),
    lambda draw: EndWatch("reset", draw.randrange(4)),
    lambda draw: EndWatch("torn", draw.randrange(4)),
    lambda draw: LateEvents(draw.uniform(0.1, 1.5)),
    lambda _: DropBookmarks(),
    lambda _: TellTwice(),
)
_WRITES: tuple[Draw, ...] = (
    lambda _: ResetBefore(),
    lambda _: ResetAfter(),
    lambda _: Misreport(answers.timed_out),
    lambda _: Answer(answers.throttled),
    lambda _: Answer(answers.internal_error),
    lambda draw: Slow(draw.uniform(0.05, 0.5)),
    lambda draw: SlowReply(draw.uniform(0.05, 0.5)),
    lambda _: CrashBefore(),
    lambda _: CrashAfter(),
)
# A create under a fixed name cannot conflict, a patch with a resourceVersion can.
_CHANGES: tuple[Draw, ...] = (*_WRITES, lambda _: Answer(answers.conflict))
_EVICTIONS: tuple[Draw, ...] = (
    *_WRITES,
    lambda _: Answer(answers.budget_exhausted),
    lambda _: Answer(answers.two_budgets),
)
_LEASES: tuple[Draw, ...] = (
    lambda _: ResetBefore(),
    lambda _: ResetAfter(),
    lambda _: Answer(answers.conflict),
    lambda _: Answer(answers.internal_error),
    lambda draw: SlowReply(draw.uniform(0.05, 0.5)),
)


class FaultPlan:
    """Faults drawn by (seed, sort of call, how many of that sort came before).

    Calls of different sorts interleave differently in each run; the draw does not depend on it. After `calls_per_sort` the
    faults of a sort stop, so that what must hold "once faults stop" can be asserted.
    """

    def __init__(self, seed: int, *, calls_per_sort: int = 8, share: float = 0.35, crashes: int = 3) -> None:
        self.seed = seed
        self._calls_per_sort = calls_per_sort
        self._share = share
        self._crashes_left = crashes
        self._seen: Counter[str] = Counter()

    @classmethod
    def from_seed(cls, seed: int) -> FaultPlan:
        return cls(seed)

    def __str__(self) -> str:
        return f"seed {self.seed}: FaultPlan.from_seed({self.seed}) strikes the same requests again"

    def faults(self, call: Call) -> list[Fault]:
        self._seen[call.sort] += 1
        nth = self._seen[call.sort]
        if nth > self._calls_per_sort:
            return []
        fault = self.draw(call, nth)
        if isinstance(fault, CrashBefore | CrashAfter):
            # Each restart costs seconds; a few a campaign meet as many different writes over many seeds.
            if self._crashes_left == 0:
                return []
            self._crashes_left -= 1
        return [] if fault is None else [fault]

    def draw(self, call: Call, nth: int) -> Fault | None:
        """What meets the nth call of its sort: a function of the seed alone."""
        draw = Random(f"{self.seed}/{call.sort}/{nth}")
        if draw.random() >= self._share:
            return None
        return draw.choice(_menu(call))(draw)


def _menu(call: Call) -> tuple[Draw, ...]:
    if call.resource == "leases":
        return _LEASES
    if call.verb == "watch":
        return _WATCHES
    if call.evicts:
        return _EVICTIONS
    if call.verb in ("patch", "update"):
        return _CHANGES
    if call.writes:
        return _WRITES
    return _PAGES if "continue" in call.params else _READS
