"""Schedules full collections of Python's garbage collector, because each one stops the whole process.

A collection of the oldest generation walks every tracked container. That takes tens of milliseconds even though Kubernetes
objects are untracked (see `kube/types/meta.py`): the modules of this process alone hold some hundred thousand containers. The
young generations, where the garbage of requests and exceptions dies, stay automatic and cost microseconds.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from plimsoll.runtime.clock import Clock

_POLL_SECONDS = 0.5  # how often to check whether the views are complete
_COLLECT_SECONDS = 600.0  # little garbage survives the young generations in this time
_NEVER = 1_000_000_000
_YOUNG = 2_000  # allocations between young collections; a page of pods makes a few thousand, which are untracked


def disable_automatic_full_gc() -> None:
    """Restrict automatic collections to the young generations. Call it once all modules are imported, before the first list."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 10, _NEVER)


def collect_and_freeze() -> None:
    """Free what the lists left behind, and exclude everything else from later collections. Call it when the views are complete.

    It stops the process for some ten milliseconds. Afterwards `gc.collect()` is cheap and should run now and then.
    """
    gc.collect()
    gc.freeze()
    if sys.platform == "linux":
        # glibc keeps freed memory between longer-lived objects; this returns it to the system. Other C libraries differ.
        with suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


@asynccontextmanager
async def scheduled_gc(complete: Callable[[], bool], clock: Clock) -> AsyncIterator[None]:
    """While the block runs: collect fully once the views are complete, and then every ten minutes."""
    disable_automatic_full_gc()
    collecting = asyncio.create_task(_collect(complete, clock), name="garbage")
    try:
        yield
    finally:
        collecting.cancel()
        with suppress(asyncio.CancelledError):
            await collecting


async def _collect(complete: Callable[[], bool], clock: Clock) -> None:
    while not complete():
        await clock.sleep(_POLL_SECONDS)
    collect_and_freeze()
    while True:
        await clock.sleep(_COLLECT_SECONDS)
        gc.collect()
