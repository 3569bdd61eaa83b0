"""Reflectors: list, then watch, to keep a store equal to the API server. `Informers` runs one per kind (and namespace).

A list has a resourceVersion, and the watch continues from exactly there. If the server no longer has that history (410), the
reflector lists again and compares the list with the store, so that listeners see every object that changed or went meanwhile.

Three rules hold whatever the server does:

- The view never goes backwards: a state, an event or a list older than what the store has reached is not applied.
- A partial list removes nothing: an object that a list does not name is removed only when the list is complete.
- `store.synced` means live now, by the rule in `liveness.py`.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Generic, Protocol, TypeVar

import structlog

from plimsoll.kube.backoff import Backoff
from plimsoll.kube.cache.interning import intern_parts
from plimsoll.kube.cache.list_reader import ListReader, Relist, StaleList, TruncatedList
from plimsoll.kube.cache.liveness import Liveness
from plimsoll.kube.cache.quarantine import Quarantined, Undecodable
from plimsoll.kube.cache.store import Store, is_older
from plimsoll.kube.cache.watch import DELETED, Bookmark, Event, EventDecoder, Lines, QuarantinedEvent
from plimsoll.kube.client.envelopes import ListMetadata
from plimsoll.kube.client.errors import (
    ApiError,
    Forbidden,
    Gone,
    KubeError,
    MalformedResponse,
    NotFound,
    ServerError,
    Unauthorized,
    Unreachable,
)
from plimsoll.kube.types.meta import KubeObject
from plimsoll.runtime.clock import Clock

log = structlog.get_logger()

T = TypeVar("T", bound=KubeObject)

# The server ends a watch after a random time in this range, so that the watches of many kinds and clients do not return together.
_WATCH_SECONDS = (300, 600)
_BACKOFF_SECONDS = (1.0, 30.0)
# A watch that lasted this long was healthy: the next failure starts with a short delay again.
_HEALTHY_SECONDS = 10.0
# The retry delay for problems that only a person can fix, such as missing RBAC or a CRD that is not installed.
_REFUSED_SECONDS = 30.0
# How long a reflector applies events before it yields to other tasks; several reflectors may run one after another.
_TURN_SECONDS = 0.005
# The server aborts a request after 60 s by default, so no more data arrives after that.
_LIST_IDLE_SECONDS = 60.0
# After this many incomplete lists in a row the reflector switches between a single request and pages: the server's time limit
# applies to each page alone, while the continue tokens of pages expire.
_BROKEN_LISTS = 2
_PAGE_SIZE = 500


class Source(Protocol):
    """The part of the client that a reflector uses."""

    def stream(
        self, path: str, params: Mapping[str, str], *, idle_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...

    def watch(
        self, path: str, params: Mapping[str, str], *, idle_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...


class Reflector(Generic[T]):
    """Keeps a store equal to the server's objects of one kind, in one namespace or in all."""

    def __init__(
        self,
        client: Source,
        store: Store[T],
        clock: Clock,
        *,
        namespace: str = "",
        page_size: int | None = None,
        streaming: bool = False,
        idle_seconds: float = 150.0,
        grace_seconds: float = 10.0,
        rng: random.Random | None = None,
    ) -> None:
        """It sends no request before `run`.

        page_size: objects per request; None reads lists in a single request (docs/decisions/002 says why).
        streaming: read lists as the first events of a watch, if the server supports it.
        idle_seconds: a watch without data for this long is dead; the server sends a bookmark about every minute.
        grace_seconds: how long a broken watch may take to reopen before the view counts as not live.
        """
        self.store = store
        # Lists started, by cause: start, gone, expired, stale, silent, broken off, kind gone, retry.
        self.relists: Counter[str] = Counter()
        # The server answers, but denies this kind or does not have it any more: only controllers that need the kind stop.
        self.denied = False
        self.events = 0  # received since the start, bookmarks too
        self._client = client
        self._clock = clock
        self._path = store.resource.path(namespace)
        self._page_size = page_size
        self._streaming = streaming
        self._idle_seconds = idle_seconds
        self._liveness = Liveness(store, clock, grace_seconds)
        self._rng = rng or random.Random()  # noqa: S311 (spreads load, hides nothing)
        self._backoff = Backoff(*_BACKOFF_SECONDS, self._rng)
        self._decoder = EventDecoder(store.resource)
        self._complete = False  # the store holds a complete list and every event since
        self._cause = "start"  # of the next list
        self._broken_lists = 0  # incomplete lists in a row
        self._newest_list = ""  # the resourceVersion of the newest list that was started
        self._broken_off_at = ""  # the resourceVersion at which the server last ended a watch with an error
        self._turn_ends = 0.0

    def age_seconds(self) -> float:
        """Seconds since the server last sent data: part of a list, an event or a bookmark."""
        return self._liveness.age_seconds()

    @property
    def problem(self) -> str:
        """Why the view is not live, or may soon not be; empty if there is no problem."""
        return self._liveness.problem

    async def run(self) -> None:
        """List and watch until cancelled."""
        try:
            while True:
                try:
                    await self._follow()
                except KubeError as error:
                    await self._recover(error)
        finally:
            self._liveness.lose()

    async def _follow(self) -> None:
        """Read one list, if one is due, and one watch until the server ends it normally."""
        if not self._complete:
            self.relists[self._cause] += 1
            self._cause = "retry"
            if self._streaming:
                try:
                    await self._watch(Relist(self.store.names()))
                except ApiError as error:
                    # A server without streaming lists answers 422 if the feature is off, others 400 or 403.
                    if self._complete or error.status not in (400, 403, 422):
                        raise
                    self._streaming = False
                else:
                    return
            await self._list(Relist(self.store.names()))
        await self._watch(None)

    # ── lists ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _list(self, relist: Relist) -> None:
        """Read a list into the store.

        The request has no resourceVersion, so the server reads from a quorum. Later pages have the resourceVersion of the first,
        because the continue token carries it.
        """
        in_pages = (self._page_size is not None) != bool(self._broken_lists // _BROKEN_LISTS % 2)
        params = {"limit": str(self._page_size or _PAGE_SIZE)} if in_pages else {}
        while token := await self._read(params, relist):
            params["continue"] = token
        await self._finish(relist)
        self._liveness.start_grace()

    async def _read(self, params: Mapping[str, str], relist: Relist) -> str:
        """Apply one reply of a list while it arrives; returns the continue token of the next page, or an empty string."""
        reader = ListReader(self.store.resource)
        early: list[T | Quarantined | Undecodable] = []  # objects that arrived before the list's resourceVersion
        async with self._client.stream(self._path, params, idle_seconds=_LIST_IDLE_SECONDS) as chunks:
            try:
                async for chunk in chunks:
                    self._liveness.hear()
                    for obj in reader.feed(chunk):
                        if reader.metadata is None:
                            early.append(obj)
                        else:
                            self._begin(relist, reader.metadata)
                            self._admit(obj, relist)
                        if self._clock.monotonic() >= self._turn_ends:
                            await self._give_way()
            except Unreachable as error:
                raise TruncatedList(str(error)) from error
        metadata, rest = reader.finish()
        self._begin(relist, metadata)
        for obj in (*early, *rest):
            self._admit(obj, relist)
            if self._clock.monotonic() >= self._turn_ends:
                await self._give_way()
        return metadata.continue_

    def _begin(self, relist: Relist, metadata: ListMetadata) -> None:
        if not relist.resource_version:
            relist.resource_version = metadata.resource_version
            self.denied = False
            self._refuse_stale(relist.resource_version)
            self._liveness.lose()  # a kind that was absent has been installed: the store is not complete yet

    def _refuse_stale(self, resource_version: str) -> None:
        for reached in (self._newest_list, self.store.resource_version):
            if is_older(resource_version, reached):
                raise StaleList(
                    f"the server's list has resourceVersion {resource_version}, older than {reached}, which it sent before: it "
                    "lags behind, or its data was restored from a backup; if restored, restart this process"
                )
        self._newest_list = resource_version

    def _admit(self, obj: T | Quarantined | Undecodable, relist: Relist) -> None:
        if isinstance(obj, Undecodable):
            relist.unreadable += 1
            self._report_unreadable(obj)
            return
        relist.missing.discard((obj.metadata.namespace, obj.metadata.name))
        if not self.store.is_news(obj):
            return
        if isinstance(obj, Quarantined):
            self._quarantine(obj)
        else:
            intern_parts(obj, self.store)
            self.store.put(obj)

    def _quarantine(self, envelope: Quarantined) -> None:
        if self.store.quarantine(envelope):
            log.error(
                "object cannot be decoded; it is in quarantine", resource=self.store.resource.plural,
                problem=envelope.problem, remedy="correct or delete the object",
            )  # fmt: skip

    def _report_unreadable(self, error: Undecodable) -> None:
        if not self.store.unreadable:
            log.error(
                "object without readable metadata; destructive actions that depend on its kind are stopped",
                resource=self.store.resource.plural, problem=str(error), remedy="correct or delete the object",
            )  # fmt: skip
        self.store.unreadable = max(1, self.store.unreadable)

    async def _finish(self, relist: Relist) -> None:
        """Complete the list: objects that it did not name are gone."""
        for namespace, name in relist.missing:
            self.store.withdraw(namespace, name, relist.resource_version)
            if self._clock.monotonic() >= self._turn_ends:
                await self._give_way()
        self.store.resource_version = relist.resource_version
        self.store.unreadable = relist.unreadable
        self._complete = True
        self._broken_lists = 0
        self._liveness.gain()
        log.debug("listed", resource=self.store.resource.plural, objects=len(self.store))

    # ── watches ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _watch(self, relist: Relist | None) -> None:
        """Apply events until the stream ends; with `relist`, its first events are the list."""
        seconds = self._rng.randint(*_WATCH_SECONDS)
        params = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        if relist is None:
            params["resourceVersion"] = self.store.resource_version
        else:
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": ""}
        lines = Lines()
        async with self._client.watch(self._path, params, idle_seconds=self._idle_seconds) as chunks:
            opened, begun_at = self._clock.monotonic(), self.store.resource_version
            self.denied = False
            if relist is not None:
                self._liveness.lose()
            self._liveness.watch_opened(complete=self._complete)
            try:
                async for chunk in chunks:
                    self._liveness.hear()
                    for line in lines.feed(chunk):
                        self.events += 1
                        try:
                            event = self._decoder.decode(line)
                        except Undecodable as error:
                            self._report_unreadable(error)
                            continue
                        if relist is None:
                            self._apply(event)
                        elif await self._apply_initial(event, relist):
                            relist = None
                        if self._clock.monotonic() >= self._turn_ends:
                            await self._give_way()
            except ServerError as error:
                self._broken_off(error)
                raise
            finally:
                self._liveness.start_grace()
                if self._clock.monotonic() - opened >= _HEALTHY_SECONDS:
                    self._backoff.reset()
        if relist is not None:
            raise TruncatedList("the stream ended before the list in it did")
        if self.store.resource_version != begun_at:
            # The watch made progress. A server ends the watch of a client that lags behind in a burst, repeatedly: waiting
            # longer would only increase the lag, and decisions would use an outdated view.
            self._backoff.reset()
        elif self._clock.monotonic() - opened < _HEALTHY_SECONDS:
            await self._pause(free=True)

    def _broken_off(self, error: ServerError) -> None:
        """Handle a watch that the server ended with a server error. After two at the same place, list again."""
        reached = self.store.resource_version
        if self._complete and reached == self._broken_off_at:
            log.info("watch makes no progress; relisting", resource=self.store.resource.plural, error=str(error))
            self._relist("broken off")
            reached = ""
        self._broken_off_at = reached

    def _apply(self, event: Event[T] | QuarantinedEvent | Bookmark) -> None:
        """Apply an event of the watch to the store."""
        if isinstance(event, Bookmark):
            if not is_older(event.resource_version, self.store.resource_version):
                self.store.resource_version = event.resource_version
                self._liveness.gain()
            return
        obj = event.object
        if self._is_past(obj.metadata.resource_version):
            return
        if event.type == DELETED:
            self.store.remove(obj.metadata.namespace, obj.metadata.name)
        elif isinstance(obj, Quarantined):
            self._quarantine(obj)
        else:
            intern_parts(obj, self.store)
            self.store.put(obj)
        self.store.resource_version = obj.metadata.resource_version

    async def _apply_initial(self, event: Event[T] | QuarantinedEvent | Bookmark, relist: Relist) -> bool:
        """Apply an event of a streaming list; returns whether it was the last one."""
        if isinstance(event, Bookmark):
            if event.ends_initial_events:
                relist.resource_version = event.resource_version
                self._refuse_stale(relist.resource_version)
                await self._finish(relist)
            return event.ends_initial_events
        metadata = event.object.metadata
        if event.type == DELETED:
            self.store.withdraw(metadata.namespace, metadata.name, metadata.resource_version)
        else:
            self._admit(event.object, relist)
        return False

    def _is_past(self, resource_version: str) -> bool:
        reached = self.store.resource_version
        return resource_version == reached or is_older(resource_version, reached)

    # ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _recover(self, error: KubeError) -> None:
        """Report the error, decide whether to list again, and wait."""
        plural = self.store.resource.plural
        if isinstance(error, NotFound) and self.store.resource.may_be_absent and not self._newest_list:
            await self._wait_for_kind(error)
            return
        self._liveness.problem = f"{plural}: {error}"
        report = log.info if isinstance(error, Gone) else log.warning  # the server drops history every five minutes
        report("list or watch failed; retrying", resource=plural, error=str(error))
        if not self._complete and _is_break(error):
            self._broken_lists += 1
            if self._streaming and self._broken_lists >= _BROKEN_LISTS:
                self._streaming = False
                self._broken_lists = 0
        if isinstance(error, Gone):
            self._relist("gone" if self._complete else "expired")
            await self._pause(free=True)
        elif isinstance(error, StaleList):
            self._relist("stale")
            await self._pause()
        elif isinstance(error, Unauthorized | Forbidden | NotFound):
            self._liveness.lose()
            if not isinstance(error, Unauthorized):
                self.denied = True
                self._liveness.hear()
            if isinstance(error, NotFound) and self._complete:
                self._relist("kind gone")  # its objects went with it; one that is installed again begins without them
            await self._clock.sleep(_REFUSED_SECONDS * self._rng.uniform(0.5, 1.0))
        else:
            if self.age_seconds() >= self._idle_seconds:
                # A watch that opens and then stays silent every time (a stuck cache, a buffering proxy) looks like a quiet one.
                # A list from a quorum tells the two apart.
                self._relist("silent")
            retry_after = error.retry_after if isinstance(error, ApiError) else None
            await self._pause(at_least=retry_after or 0.0)

    async def _wait_for_kind(self, error: NotFound) -> None:
        """Wait for a kind that is not installed. An empty view of it is correct, unless it was installed before."""
        self._liveness.hear()
        if not self.store.synced:
            log.info(
                "kind not installed; waiting for it", resource=self.store.resource.plural,
                api_version=self.store.resource.api_version, error=str(error),
            )  # fmt: skip
            self._liveness.gain()
        await self._clock.sleep(_REFUSED_SECONDS * self._rng.uniform(0.5, 1.0))

    def _relist(self, cause: str) -> None:
        self._complete = False
        self._cause = cause
        self._liveness.lose()

    async def _pause(self, *, at_least: float = 0.0, free: bool = False) -> None:
        """Wait before the next attempt. With `free`, the first attempt in a row does not wait."""
        seconds = max(self._backoff.next(), at_least)
        if not free or self._backoff.failures > 1:
            await self._clock.sleep(seconds)

    async def _give_way(self) -> None:
        await asyncio.sleep(0)
        self._turn_ends = self._clock.monotonic() + _TURN_SECONDS


def _is_break(error: KubeError) -> bool:
    """Whether a list was incomplete for a reason that another way of requesting it may avoid."""
    return isinstance(error, Gone | TruncatedList | MalformedResponse) or (
        isinstance(error, ServerError) and error.status == 504
    )
