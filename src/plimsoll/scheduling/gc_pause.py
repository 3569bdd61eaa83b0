"""Keeping the garbage collector out of short computations."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """For the making of very many small objects that all live until the answer: to look through them again and again while they
    are made costs a tenth of the time and finds nothing.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
