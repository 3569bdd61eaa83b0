"""When Python looks for cycles of garbage: at moments that we choose, because a full look stops everything.

A collection of the oldest generation walks every container that is tracked. That takes tens of milliseconds even though
our objects are not among them (their Structs are untracked, see `types.py`): the modules of this process alone are some
hundred thousand. The young generations, where the garbage of requests and exceptions dies, stay automatic and cost
microseconds.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from plimsoll.runtime.clock import Clock

_LOOK_SECONDS = 0.5  # for the views to be complete
_COLLECT_SECONDS = 600.0  # what outlives the young generations meanwhile is little, and not walked until then
_NEVER = 1_000_000_000
_YOUNG = (
    2_000  # objects made since the last look: a page of pods makes a few thousand, which are untracked when looked at
)


def postpone_full_collections() -> None:
    """Call once everything is imported, before the first list: no automatic collection goes beyond the young."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 10, _NEVER)


def settle_garbage() -> None:
    """Call when the views are first complete: what the lists left behind is given back, and what stays is not walked again.

    Stops everything for some ten milliseconds; afterwards `gc.collect()` costs little, and should be called now and then.
    """
    gc.collect()
    gc.freeze()
    if sys.platform == "linux":
        # glibc keeps what freed text leaves between longer-lived objects. Other C libraries have their own ways.
        with suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


@asynccontextmanager
async def garbage_at_chosen_moments(complete: Callable[[], bool], clock: Clock) -> AsyncIterator[None]:
    """Around the work of a process: full collections once its views are complete, and then every ten minutes."""
    postpone_full_collections()
    collecting = asyncio.create_task(_collect(complete, clock), name="garbage")
    try:
        yield
    finally:
        collecting.cancel()
        with suppress(asyncio.CancelledError):
            await collecting


async def _collect(complete: Callable[[], bool], clock: Clock) -> None:
    while not complete():
        await clock.sleep(_LOOK_SECONDS)
    settle_garbage()
    while True:
        await clock.sleep(_COLLECT_SECONDS)
        gc.collect()
