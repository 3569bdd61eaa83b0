"""Loads providers, which are plug-ins of the entry-point group `plimsoll.providers`; the built-in ones are, too.

    [project.entry-points."plimsoll.providers"]
    acme = "my_package:acme_provider"

A NodeGroup's `provider` is the name of an entry point; the entry point is a function that takes a `Setup` and returns a `Provider`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

import structlog
from msgspec import Struct, field

from plimsoll.config.providers import Providers
from plimsoll.config.sources import ConfigProblem, ConfigurationError
from plimsoll.kube.client.client import Client
from plimsoll.providers.protocol import Provider
from plimsoll.runtime.clock import Clock

GROUP = "plimsoll.providers"
_VERBS = ("offerings", "list", "create", "delete", "capabilities", "close")

log = structlog.get_logger()


class Setup(Struct, frozen=True):
    """The arguments of a provider. It may keep them, and must not do I/O before its first method is called."""

    config: Providers
    settings: Mapping[str, str]  # its own `providers.settings`: key → value
    client: Client  # of the cluster's API server, for example to read a Secret with credentials
    namespace: str  # the operator's own, where a provider may store what must survive a restart
    clock: Clock


class Factory(Protocol):
    def __call__(self, setup: Setup) -> Provider: ...


class LoadedProviders(Struct, frozen=True):
    """The providers that can be used, and why the others cannot."""

    usable: Mapping[str, Provider] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    async def close(self) -> None:
        for name, provider in self.usable.items():
            try:
                await provider.close()
            except Exception:
                log.exception("cannot close provider", provider=name)


def load_providers(
    config: Providers, *, client: Client, namespace: str, clock: Clock, wanted: Collection[str] = ()
) -> LoadedProviders:
    """Create the installed providers; `wanted` limits them by name, empty means all.

    A provider that cannot be created is logged and appears in `failures`; it does not affect the others.
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
            failures[name] = f"no package provides this name in the entry-point group {GROUP}"
    for name, why in sorted(failures.items()):
        log.error("provider cannot be used", provider=name, error=why)
    return LoadedProviders(usable, failures)


def provider_settings(config: Providers) -> Mapping[str, Mapping[str, str]]:
    """`providers.settings` by provider; ConfigurationError if an item is not `provider.key=value`."""
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
        problems.append(ConfigProblem("", "providers.settings", message))
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
