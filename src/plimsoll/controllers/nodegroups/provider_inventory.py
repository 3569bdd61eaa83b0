"""What each provider last reported: its machines and its offerings. `ProviderPoller` writes it, decisions read it.

An inventory is complete and knows when its request was sent; changes after that moment are not in it. Nothing is destroyed on the
basis of an old inventory, or without one.
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
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import Key, Resource
from plimsoll.providers.errors import ProviderError
from plimsoll.providers.protocol import Capabilities, Machine, Offering, Provider, Scope
from plimsoll.runtime.clock import Clock

log = structlog.get_logger()

POLL_TIMEOUT_SECONDS = 60.0
# An error is reported this long after the provider works again, so that one that fails every other time does not flap.
ERROR_HOLD = timedelta(minutes=1)
# How often a process that does not lead checks whether it leads by now: this share of the interval, at least one second.
STANDBY_SHARE = 0.05


class ProviderInventory(Struct, frozen=True):
    requested_at: datetime
    machines: Mapping[str, Machine]  # by id
    offerings: Mapping[str, tuple[Offering, ...]] = field(default_factory=dict)  # by datacenter
    capabilities: Capabilities = Capabilities(idempotent_create=False, lists_by_group=False, makes_nodes=False)

    @classmethod
    def of(
        cls,
        requested_at: datetime,
        machines: Iterable[Machine] = (),
        offerings: Mapping[str, tuple[Offering, ...]] | None = None,
        capabilities: Capabilities | None = None,
    ) -> ProviderInventory:
        by_id = {machine.id: machine for machine in machines}
        default = Capabilities(idempotent_create=False, lists_by_group=False, makes_nodes=False)
        return cls(requested_at, by_id, offerings or {}, capabilities or default)

    def by_key(self, key: str) -> Machine | None:
        """The machine that was ordered under this key."""
        return next((machine for machine in self.machines.values() if machine.key == key), None)

    def offering(self, datacenter: str, offering_id: str) -> Offering | None:
        return next((one for one in self.offerings.get(datacenter, ()) if one.id == offering_id), None)

    def is_fresh(self, now: datetime, limit: timedelta) -> bool:
        return now - self.requested_at <= limit


class ProviderInventories:
    """The last inventory and the last error of each provider."""

    def __init__(self) -> None:
        self._last: dict[str, ProviderInventory] = {}
        self._errors: dict[str, tuple[str, datetime]] = {}  # the last error, and when it occurred
        self._failing: set[str] = set()  # providers whose last poll failed

    def record(self, provider: str, inventory: ProviderInventory) -> bool:
        """Returns whether anything but the time has changed."""
        before = self._last.get(provider)
        self._last[provider] = inventory
        changed = before is None or replace(before, requested_at=inventory.requested_at) != inventory
        recovered = provider in self._failing
        self._failing.discard(provider)
        return recovered or changed

    def record_error(self, provider: str, message: str, at: datetime) -> None:
        """The last inventory is kept, and ages."""
        self._errors[provider] = (message, at)
        self._failing.add(provider)

    def get(self, provider: str) -> ProviderInventory | None:
        return self._last.get(provider)

    def last_error(self, provider: str) -> str:
        return self._errors[provider][0] if provider in self._errors else "it was not polled yet"

    def current_error(self, provider: str, now: datetime) -> str:
        """The provider's own words if its last poll failed, or one failed within ERROR_HOLD; else empty."""
        if provider not in self._errors:
            return ""
        message, at = self._errors[provider]
        return message if provider in self._failing or now - at <= ERROR_HOLD else ""


class ProviderPoller:
    """Polls the providers of all groups for their machines and offerings while this process leads."""

    controller = "nodegroups"

    def __init__(
        self,
        inventories: ProviderInventories,
        providers: Mapping[str, Provider],
        clock: Clock,
        *,
        interval: timedelta,
        cluster_key: Key,
    ) -> None:
        self._inventories = inventories
        self._providers = providers
        self._clock = clock
        self._interval = interval
        self._cluster_key = cluster_key
        self._polled: set[tuple[str, str]] = set()  # provider, datacenter
        self._added = asyncio.Event()  # a group names a provider or datacenter that was not polled yet

    async def run(self, view: View, leading: Callable[[], bool], look_at: Callable[[Key], None]) -> None:
        view[NODE_GROUPS].listen(self._on_group)
        while True:
            if leading() and not view.stale:
                wanted = _in_use(view)
                self._polled = {
                    (name, datacenter) for name, datacenters in wanted.items() for datacenter in datacenters
                }
                self._added.clear()
                changes = await asyncio.gather(*(self._poll(name, wanted[name]) for name in sorted(wanted)))
                if any(changes):
                    look_at(self._cluster_key)
                for node in view[VPSIE_NODES]:
                    if node.phase != "Ready" or node.terminating:
                        look_at(VPSIE_NODES.key(node))
                await self._pause()
            else:
                interval = self._interval.total_seconds()
                await self._clock.sleep(min(interval, max(1.0, interval * STANDBY_SHARE)))

    def _on_group(self, _: Resource[Any], before: KubeObject | None, after: KubeObject | None) -> None:  # noqa: ARG002
        if isinstance(after, NodeGroup) and (after.spec.provider, after.spec.datacenter_id) not in self._polled:
            self._added.set()

    async def _pause(self) -> None:
        """Wait for the interval; or until a group names a new provider, so that its pods do not wait for the interval to end."""
        ends = [
            asyncio.ensure_future(one)
            for one in (self._clock.sleep(self._interval.total_seconds()), self._added.wait())
        ]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in ends:
                one.cancel()
            await asyncio.gather(*ends, return_exceptions=True)

    async def _poll(self, name: str, datacenters: set[str]) -> bool:
        """Returns whether anything has changed; an error counts as a change."""
        provider = self._providers.get(name)
        if provider is None:
            known = ", ".join(sorted(self._providers)) or "none"
            message = f'there is no provider "{name}"; the enabled ones are: {known} (see providers.enabled)'
            self._inventories.record_error(name, message, self._clock.now())
            return True
        requested_at = self._clock.now()
        try:
            async with asyncio.timeout(POLL_TIMEOUT_SECONDS):
                machines = await provider.list(Scope())
                offerings = {
                    datacenter: tuple(await provider.offerings(datacenter)) for datacenter in sorted(datacenters)
                }
                capabilities = await provider.capabilities()
        except (ProviderError, TimeoutError) as error:
            message = str(error) or f"no answer within {POLL_TIMEOUT_SECONDS:.0f} s"
            self._inventories.record_error(name, message, self._clock.now())
            log.warning("provider cannot be polled", provider=name, error=message)
        except Exception as error:
            # A plug-in may raise anything; the other providers are polled all the same.
            self._inventories.record_error(name, repr(error), self._clock.now())
            log.exception("provider raised an unexpected error", provider=name)
        else:
            return self._inventories.record(name, ProviderInventory.of(requested_at, machines, offerings, capabilities))
        return True


def _in_use(view: View) -> dict[str, set[str]]:
    """The providers that any group or node names, with their datacenters."""
    found: dict[str, set[str]] = {}
    for group in view[NODE_GROUPS]:
        found.setdefault(group.spec.provider, set()).add(group.spec.datacenter_id)
    for node in view[VPSIE_NODES]:
        found.setdefault(node.spec.provider, set()).add(node.spec.datacenter_id)
    return found
