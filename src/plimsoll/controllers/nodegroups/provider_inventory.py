"""What providers said when they were last asked: which machines there are, and what is sold.

A sighting is whole, and knows when its question was sent: what happened after that it does not show. Nothing is destroyed on an old
one, nor on none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import structlog
from msgspec import Struct, field
from msgspec.structs import replace

from plimsoll.controllers.nodegroups.types import NODE_GROUPS, VPSIE_NODES, NodeGroup
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import KubeObject
from plimsoll.kube.types.resources import Key, Resource
from plimsoll.providers.errors import ProviderError
from plimsoll.providers.protocol import Capabilities, Machine, Offering, Provider, Scope
from plimsoll.runtime.clock import Clock


class Sighting(Struct, frozen=True):
    asked_at: datetime
    machines: Mapping[str, Machine]  # by id
    offerings: Mapping[str, tuple[Offering, ...]] = field(default_factory=dict)  # by datacenter
    capabilities: Capabilities = Capabilities(idempotent_create=False, lists_by_group=False, makes_nodes=False)

    @classmethod
    def of(
        cls,
        asked_at: datetime,
        machines: Iterable[Machine] = (),
        offerings: Mapping[str, tuple[Offering, ...]] | None = None,
        capabilities: Capabilities | None = None,
    ) -> Sighting:
        by_id = {machine.id: machine for machine in machines}
        default = Capabilities(idempotent_create=False, lists_by_group=False, makes_nodes=False)
        return cls(asked_at, by_id, offerings or {}, capabilities or default)

    def by_key(self, key: str) -> Machine | None:
        return next((machine for machine in self.machines.values() if machine.key == key), None)

    def offering(self, datacenter: str, offering_id: str) -> Offering | None:
        return next((one for one in self.offerings.get(datacenter, ()) if one.id == offering_id), None)

    def is_fresh(self, now: datetime, limit: timedelta) -> bool:
        return now - self.asked_at <= limit


class Sightings:
    """The last of each provider; written by the observer, read by decisions."""

    def __init__(self) -> None:
        self._last: dict[str, Sighting] = {}
        self._trouble: dict[str, str] = {}

    def enter(self, provider: str, sighting: Sighting) -> bool:
        """Whether it says anything new."""
        before = self._last.get(provider)
        self._last[provider] = sighting
        news = before is None or replace(before, asked_at=sighting.asked_at) != sighting
        return self._trouble.pop(provider, None) is not None or news

    def failed(self, provider: str, why: str) -> None:
        """The last sighting stays, and grows older."""
        self._trouble[provider] = why

    def of(self, provider: str) -> Sighting | None:
        return self._last.get(provider)

    def trouble(self, provider: str) -> str:
        return self._trouble.get(provider, "it was not asked yet")


# Asks the providers, again and again, which machines there are and what is sold.

log = structlog.get_logger()

# A provider that does not answer a listing for so long is asked again from the start.
ANSWER_SECONDS = 60.0
# A process that does not lead looks so often whether it does by now, as a part of the interval; once a second at most.
STANDBY_SHARE = 0.05


class MachineObserver:
    controller = "nodegroups"

    def __init__(
        self,
        sightings: Sightings,
        providers: Mapping[str, Provider],
        clock: Clock,
        *,
        interval: timedelta,
        cluster_key: Key,
    ) -> None:
        self._sightings = sightings
        self._providers = providers
        self._clock = clock
        self._interval = interval
        self._cluster_key = cluster_key
        self._asked: set[tuple[str, str]] = set()  # providers, and the datacenters that they were asked about
        self._named = asyncio.Event()  # someone names another

    async def run(self, view: View, leading: Callable[[], bool], look_at: Callable[[Key], None]) -> None:
        view[NODE_GROUPS].listen(self._hear)
        while True:
            if leading() and not view.stale:
                wanted = _in_use(view)
                self._asked = {(name, place) for name, places in wanted.items() for place in places}
                self._named.clear()
                news = await asyncio.gather(*(self._ask(name, wanted[name]) for name in sorted(wanted)))
                # Where all is as it was, the groups are looked at when they themselves say so.
                if any(news):
                    look_at(self._cluster_key)
                for node in view[VPSIE_NODES]:
                    if node.phase != "Ready" or node.terminating:
                        look_at(VPSIE_NODES.key(node))
                await self._rest()
            else:
                interval = self._interval.total_seconds()
                await self._clock.sleep(min(interval, max(1.0, interval * STANDBY_SHARE)))

    def _hear(self, _: Resource[Any], before: KubeObject | None, after: KubeObject | None) -> None:  # noqa: ARG002
        if isinstance(after, NodeGroup) and (after.spec.provider, after.spec.datacenter_id) not in self._asked:
            self._named.set()

    async def _rest(self) -> None:
        """Until it is time again, or a group names whom nobody asked yet: its pods should not wait for the time to be over."""
        ends = [
            asyncio.ensure_future(one)
            for one in (self._clock.sleep(self._interval.total_seconds()), self._named.wait())
        ]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in ends:
                one.cancel()
            await asyncio.gather(*ends, return_exceptions=True)

    async def _ask(self, name: str, datacenters: set[str]) -> bool:
        """Whether there is anything new."""
        provider = self._providers.get(name)
        if provider is None:
            known = ", ".join(sorted(self._providers)) or "none"
            self._sightings.failed(name, f'there is no provider "{name}"; there is: {known} (see providers.enabled)')
            return True
        asked_at = self._clock.now()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                machines = await provider.list(Scope())
                offerings = {place: tuple(await provider.offerings(place)) for place in sorted(datacenters)}
                capabilities = await provider.capabilities()
        except (ProviderError, TimeoutError) as error:
            why = str(error) or f"no answer within {ANSWER_SECONDS:.0f} s"
            self._sightings.failed(name, why)
            log.warning("a provider cannot be asked", provider=name, error=why)
        except Exception as error:
            # A plug-in may raise anything; others are asked all the same.
            self._sightings.failed(name, repr(error))
            log.exception("a provider failed", provider=name)
        else:
            return self._sightings.enter(name, Sighting.of(asked_at, machines, offerings, capabilities))
        return True


def _in_use(view: View) -> dict[str, set[str]]:
    """The providers that any group or node names, with their datacenters."""
    found: dict[str, set[str]] = {}
    for group in view[NODE_GROUPS]:
        found.setdefault(group.spec.provider, set()).add(group.spec.datacenter_id)
    for node in view[VPSIE_NODES]:
        found.setdefault(node.spec.provider, set()).add(node.spec.datacenter_id)
    return found
