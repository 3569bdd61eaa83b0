"""Whether a store is live now, not once: the rule behind `Store.synced`.

It is true once a list is complete. It is false while a list is read again, at once when the server refuses us or a watch falls
silent, and when a watch that broke is not open again within the grace: a brief reconnect does not show. After such a
break it is true again when the new watch has delivered what was missed, that is, when it pauses or sends a bookmark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from plimsoll.kube.cache.store import Store
from plimsoll.runtime.clock import Clock

# Missed events come in one go when a watch opens again; such a pause in the stream means that there are no more.
_CAUGHT_UP_SECONDS = 0.5


class Liveness:
    """Sets `store.synced`, and knows the age of the view. A reflector tells it what happens."""

    def __init__(self, store: Store[Any], clock: Clock, grace_seconds: float) -> None:
        self.trouble = ""  # why the view is not live, or may soon not be; empty when all is well
        self._store = store
        self._clock = clock
        self._grace_seconds = grace_seconds
        self._heard = clock.monotonic()
        self._timer: asyncio.Task[None] | None = None  # makes the store synced, or not synced, when its time comes

    def hear(self) -> None:
        """The server sent something."""
        self._heard = self._clock.monotonic()

    def age_seconds(self) -> float:
        return self._clock.monotonic() - self._heard

    def gain(self) -> None:
        """The store is known to lack nothing."""
        if not self._store.synced:
            self._set_timer(None)
            self._store.synced = True
            self.trouble = ""

    def lose(self) -> None:
        self._set_timer(None)
        self._store.synced = False

    def watch_opened(self, *, complete: bool) -> None:
        """`complete`: the store holds a whole list and every event since, up to where this watch begins."""
        self.hear()
        if self._store.synced:
            self._set_timer(None)
            self.trouble = ""
        elif complete:
            self._set_timer(self._gain_once_quiet())

    def start_grace(self) -> None:
        """The watch has ended, or has yet to begin. Attempts that fail do not start the time anew."""
        self._set_timer(self._lose_after_grace() if self._store.synced else None)

    async def _gain_once_quiet(self) -> None:
        while (remaining := _CAUGHT_UP_SECONDS - self.age_seconds()) > 0:
            await self._clock.sleep(remaining)
        self._timer = None
        self.gain()

    async def _lose_after_grace(self) -> None:
        await self._clock.sleep(self._grace_seconds)
        self._timer = None
        self.lose()

    def _set_timer(self, coming: Coroutine[None, None, None] | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.create_task(coming) if coming is not None else None
