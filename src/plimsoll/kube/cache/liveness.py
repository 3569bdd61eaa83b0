"""The rule behind `Store.synced`: whether a store is live now. Reflectors call it.

A store is live once a list is complete. It is not live while a list is read again, as soon as the server denies access or a
watch falls silent, and when a broken watch is not open again within the grace period (a brief reconnect does not show). After
such a break it is live again when the new watch has delivered what was missed: when it pauses or sends a bookmark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from plimsoll.kube.cache.store import Store
from plimsoll.runtime.clock import Clock

# A reopened watch delivers missed events in one burst; a pause this long means that it has delivered all of them.
_CAUGHT_UP_SECONDS = 0.5


class Liveness:
    """Sets `store.synced` and measures the age of the view."""

    def __init__(self, store: Store[Any], clock: Clock, grace_seconds: float) -> None:
        self.problem = ""  # why the view is not live, or may soon not be; empty if there is no problem
        self._store = store
        self._clock = clock
        self._grace_seconds = grace_seconds
        self._heard = clock.monotonic()
        self._timer: asyncio.Task[None] | None = None  # makes the store synced, or not synced, when its time comes

    def hear(self) -> None:
        """Note that the server sent data."""
        self._heard = self._clock.monotonic()

    def age_seconds(self) -> float:
        return self._clock.monotonic() - self._heard

    def gain(self) -> None:
        """Mark the store as live: it lacks nothing."""
        if not self._store.synced:
            self._set_timer(None)
            self._store.synced = True
            self.problem = ""

    def lose(self) -> None:
        self._set_timer(None)
        self._store.synced = False

    def watch_opened(self, *, complete: bool) -> None:
        """`complete`: the store holds a whole list and every event since, up to where this watch begins."""
        self.hear()
        if self._store.synced:
            self._set_timer(None)
            self.problem = ""
        elif complete:
            self._set_timer(self._gain_once_quiet())

    def start_grace(self) -> None:
        """Start the grace period: the watch ended, or has not started yet. Failed attempts do not restart it."""
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
