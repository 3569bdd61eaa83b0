"""Providers are plug-ins: whatever is installed under the entry-point group `plimsoll.providers`, ours included.

    [project.entry-points."plimsoll.providers"]
    acme = "my_package:acme_provider"

The entry point's name is what a NodeGroup's `provider` says; what it names is called with a `Setup` and gives a `Provider`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

import structlog
from msgspec import Struct, field

from plimsoll.config.providers import Providers
from plimsoll.config.sources import ConfigurationError, Problem
from plimsoll.kube.client.client import Client
from plimsoll.providers.protocol import Provider
from plimsoll.runtime.clock import Clock

GROUP = "plimsoll.providers"
_VERBS = ("offerings", "list", "create", "delete", "capabilities", "close")

log = structlog.get_logger()


class Setup(Struct, frozen=True):
    """What a provider is made with. It may keep all of it; it must not call anything before its first verb is called."""

    config: Providers
    settings: Mapping[str, str]  # its own `providers.settings`: key → value
    client: Client  # of the cluster's API server: for a Secret with credentials, above all
    namespace: str  # the operator's own, where a provider may keep what must outlive a restart
    clock: Clock


class Factory(Protocol):
    def __call__(self, setup: Setup) -> Provider: ...


class Installed(Struct, frozen=True):
    """The providers that can be used, and why others cannot."""

    usable: Mapping[str, Provider] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    async def close(self) -> None:
        for name, provider in self.usable.items():
            try:
                await provider.close()
            except Exception:
                log.exception("a provider could not be closed", provider=name)


def discover(
    config: Providers, *, client: Client, namespace: str, clock: Clock, wanted: Collection[str] = ()
) -> Installed:
    """Make the providers that are installed; `wanted` limits it to some, empty means all.

    One that cannot be made is logged, and named to whoever asks for it; it stops nobody else.
    """
    settings = provider_settings(config)
    usable: dict[str, Provider] = {}
    failures: dict[str, str] = {}
    for entry in entry_points(group=GROUP):
        if wanted and entry.name not in wanted:
            continue
        setup = Setup(config, settings.get(entry.name, {}), client, namespace, clock)
        try:
            usable[entry.name] = _make(entry, setup)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plug-in may raise anything, even this
            failures[entry.name] = f"{entry.value} cannot be used: {error!r}"
    for name in {*wanted, *settings}:
        if name not in usable and name not in failures and (not wanted or name in wanted):
            failures[name] = f"nothing is installed under this name in the entry-point group {GROUP}"
    for name, why in sorted(failures.items()):
        log.error("a provider cannot be used", provider=name, why=why)
    return Installed(usable, failures)


def provider_settings(config: Providers) -> Mapping[str, Mapping[str, str]]:
    """`providers.settings` by provider; ConfigurationError where an item is not `provider.key=value`."""
    found: dict[str, dict[str, str]] = {}
    problems = []
    for text in config.settings:
        path, equals, value = text.partition("=")
        provider, dot, key = path.partition(".")
        if not (provider and dot and key and equals):
            message = f'"{path}" does not name a setting of a provider; write it like "acme.region=north"'
        elif key in found.get(provider, {}):
            message = f"{path} is given twice"
        else:
            found.setdefault(provider, {})[key] = value
            continue
        problems.append(Problem("", "providers.settings", message))
    if problems:
        raise ConfigurationError(problems)
    return found


def _make(entry: EntryPoint, setup: Setup) -> Provider:
    factory: Factory = entry.load()
    provider = factory(setup)
    if missing := [verb for verb in _VERBS if not callable(getattr(provider, verb, None))]:
        raise TypeError(f"{type(provider).__name__} has no method {', '.join(missing)}")
    if provider.name != entry.name:
        raise ValueError(f'its name is "{provider.name}", its entry point\'s "{entry.name}"')
    return provider
