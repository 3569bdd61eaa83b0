"""Waiting for conditions, never for time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

# Far beyond what anything takes: the machines are shared and noisy, and a condition that holds is seen at once.
PATIENCE_SECONDS = 120.0
_SHORTEST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 0.25
# Asking takes time from whoever is waited for: the API server, or an operator in this very process. It gets five sixths.
_PAUSE_FOR_EACH_SECOND_OF_ASKING = 5.0


class NeverCameError(AssertionError):
    """What was waited for."""


async def eventually(condition: Callable[[], Any], what: str = "", *, seconds: float = PATIENCE_SECONDS) -> Any:
    """The first true value of `condition`, a function or a coroutine function; an error if it never comes."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    value: Any = None
    while (asked := loop.time()) < deadline:
        found = condition()
        value = await found if inspect.isawaitable(found) else found
        if value:
            return value
        pause = (loop.time() - asked) * _PAUSE_FOR_EACH_SECOND_OF_ASKING
        await asyncio.sleep(min(max(pause, _SHORTEST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS))
    raise NeverCameError(f"never came: {what or inspect.getsource(condition).strip()} (last seen: {value!r})")
