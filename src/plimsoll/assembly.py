"""Which controllers this version has, and how the configuration becomes their settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from plimsoll.config import Config
from plimsoll.config.sources import ConfigurationError, Problem
from plimsoll.decision import Controller
from plimsoll.deletion_cost.algorithms import discover
from plimsoll.deletion_cost.controller import DeletionCostController
from plimsoll.deletion_cost.spec import DeletionCostSettings


def controllers(config: Config) -> tuple[Controller, ...]:
    """The controllers that exist and are switched on; ConfigurationError if one is asked for that does not."""
    wanted: Sequence[str] = config.controllers.enabled or tuple(MAKERS)
    if missing := [name for name in wanted if name not in MAKERS]:
        message = f"this version has no controller {', '.join(missing)}; it has: {', '.join(MAKERS)}"
        raise ConfigurationError([Problem("", "controllers.enabled", message)])
    return tuple(MAKERS[name](config) for name in wanted)


def _deletion_cost(config: Config) -> Controller:
    section = config.controllers.deletion_cost
    settings = DeletionCostSettings(
        adopt_existing=section.adopt_existing,
        ceiling=section.ceiling,
        algorithms=section.algorithms,
        max_rewrites_per_minute=section.max_rewrites_per_minute,
    )
    return DeletionCostController(settings, discover(section.algorithms))


MAKERS: Mapping[str, Callable[[Config], Controller]] = {
    DeletionCostController.name: _deletion_cost,
}
