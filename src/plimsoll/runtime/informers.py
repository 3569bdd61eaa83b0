"""Informers: one store per watched kind, the reflectors that keep the stores up to date, and their age.

The operator builds one `Informers` for all controllers.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Iterator, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import structlog

from plimsoll.kube.cache.reflector import Reflector
from plimsoll.kube.cache.store import MultiNamespaceStore, Store, View
from plimsoll.kube.client.client import Client
from plimsoll.kube.types.resources import Resource
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.metrics import Metrics

log = structlog.get_logger()

# The watchdog checks the age of the view this often, or sixty times within the limit, whichever is less frequent.
WATCHDOG_SECONDS = 1.0
WATCHDOG_CHECKS_PER_LIMIT = 60


class Informers:
    """A view of all watched kinds, and the reflectors behind it."""

    def __init__(
        self,
        resources: Iterable[Resource[Any]],
        client: Client,
        clock: Clock,
        metrics: Metrics,
        *,
        namespaces: Sequence[str],
        idle_timeout: timedelta,
        rng: Random,
    ) -> None:
        """namespaces: the only ones to watch; empty: all."""
        self._client = client
        self._clock = clock
        self._metrics = metrics
        self._namespaces = tuple(namespaces)
        self._idle_seconds = idle_timeout.total_seconds()
        self._rng = rng
        self._reflectors: dict[tuple[Resource[Any], str], Reflector[Any]] = {}
        self.view = View({resource: self._follow(resource) for resource in resources})
        for plural, of_kind in self._by_plural().items():
            self._show(plural, of_kind)

    def _follow(self, resource: Resource[Any]) -> Store[Any]:
        """Create the store of a kind and its reflectors: one for all namespaces, or one per watched namespace."""
        namespaces = self._namespaces if resource.namespaced and not resource.watched_in else ()
        parts: dict[str, Store[Any]] = {name: Store(resource) for name in namespaces or (resource.watched_in,)}
        for namespace, part in parts.items():
            self._reflectors[resource, namespace] = Reflector(
                self._client, part, self._clock, namespace=namespace, idle_seconds=self._idle_seconds, rng=self._rng
            )
        return MultiNamespaceStore(resource, parts) if namespaces else parts[resource.watched_in]

    def _show(self, plural: str, of_kind: Sequence[Reflector[Any]]) -> None:
        """Publish age, liveness and size of a kind's view; computed at each scrape."""
        metrics = self._metrics
        metrics.view_age_seconds.labels(plural).set_function(lambda: max(one.age_seconds() for one in of_kind))
        metrics.view_synced.labels(plural).set_function(lambda: all(one.store.synced for one in of_kind))
        metrics.quarantined.labels(plural).set_function(
            lambda: sum(len(one.store.quarantined) + one.store.unreadable for one in of_kind)
        )
        metrics.view_objects.labels(plural).set_function(lambda: sum(len(one.store) for one in of_kind))

    def _by_plural(self) -> dict[str, list[Reflector[Any]]]:
        found: dict[str, list[Reflector[Any]]] = {}
        for (resource, _), reflector in self._reflectors.items():
            found.setdefault(resource.plural, []).append(reflector)
        return found

    def tasks(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """The coroutines that keep the view up to date, each with a name."""
        for (resource, namespace), reflector in self._reflectors.items():
            yield f"watch {resource.plural} {namespace}", reflector.run()

    def not_live(self, oldest: timedelta) -> str | None:
        """Why the view must not be relied on, or None. oldest: the age from which a view counts as too old.

        Kinds that the server denies or does not have are left out: they concern only the controllers that need them.
        """
        for (resource, _), reflector in self._reflectors.items():
            if reflector.denied:
                continue
            if not reflector.store.synced:
                problem = f": {reflector.problem}" if reflector.problem else ""
                return f"the view of {resource.plural} is not live{problem}"
            if reflector.age_seconds() > oldest.total_seconds():
                return f"no data about {resource.plural} from the API server for {reflector.age_seconds():.0f} s"
        return None

    def problem_with(self, plural: str) -> str:
        """Why the view of a kind is not live, as far as that is known."""
        return next((one.problem for one in self._by_plural().get(plural, ()) if one.problem), "")

    async def until_too_old(self, limit: timedelta) -> None:
        """Check the age of the view, and return when the view of a kind has not been live for longer than `limit`."""
        limit_seconds = limit.total_seconds()
        live_at = dict.fromkeys(self._reflectors, self._clock.monotonic())
        while True:
            now = self._clock.monotonic()
            for plural, of_kind in self._by_plural().items():
                self._metrics.publish_relists(plural, sum(reflector.relists.total() for reflector in of_kind))
            for followed, reflector in self._reflectors.items():
                if reflector.store.synced or reflector.denied:
                    live_at[followed] = now  # a restart would not bring back a kind that the server denies
                # A server may answer and still not be usable: one restored from a backup, or one that denies access.
                if (age := max(reflector.age_seconds(), now - live_at[followed])) > limit_seconds:
                    log.error(
                        "view too old; exiting", resource=followed[0].plural, age_seconds=round(age),
                        problem=reflector.problem,
                    )  # fmt: skip
                    return
            await self._clock.sleep(max(WATCHDOG_SECONDS, limit_seconds / WATCHDOG_CHECKS_PER_LIMIT))
