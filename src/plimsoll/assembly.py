"""Which controllers this version has, and how the configuration becomes their settings."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence

from plimsoll.allocation.controller import AllocationController, AllocationSettings
from plimsoll.config import Config
from plimsoll.config import DisruptionWindow as WindowSection
from plimsoll.config.sources import ConfigurationError, Problem
from plimsoll.decision import Controller, DisruptionLimits
from plimsoll.deletion_cost.algorithms import Algorithms, discover
from plimsoll.deletion_cost.controller import DeletionCostController
from plimsoll.deletion_cost.spec import DeletionCostSettings
from plimsoll.durations import format_duration
from plimsoll.placement.capacity_order import Capacity
from plimsoll.placement.classes import ClassRule, ClassRules
from plimsoll.placement.controller import PlacementController
from plimsoll.placement.distribution import Rounding
from plimsoll.placement.settings import PlacementSettings
from plimsoll.placement.webhook_configuration import namespace_labels
from plimsoll.placement.window import DisruptionWindow, parse_window


def controllers(config: Config) -> tuple[Controller, ...]:
    """The controllers that exist and are switched on; ConfigurationError if one is asked for that does not."""
    # Two allocators that do not know of each other would give the same drive away: this one is never switched on unasked.
    wanted: Sequence[str] = config.controllers.enabled or [name for name in MAKERS if name != AllocationController.name]
    if missing := [name for name in wanted if name not in MAKERS]:
        message = f"this version has no controller {', '.join(missing)}; it has: {', '.join(MAKERS)}"
        raise ConfigurationError([Problem("", "controllers.enabled", message)])
    return tuple(MAKERS[name](config) for name in wanted)


def placement_settings(config: Config) -> PlacementSettings:
    """What the configuration says about placement; ConfigurationError where it makes no sense."""
    section, timing = config.placement, config.controllers.workload_timing
    return PlacementSettings(
        rules=_class_rules(section.spot_labels),
        rounding=Rounding(section.rounding),
        percent_sign=section.percent_sign,
        when_min_exceeds_replicas=section.when_min_exceeds_replicas,
        window=_window(config.operator.disruption_window),
        cooldown=timing.cooldown_period,
        retry_interval=timing.disruption_retry_interval,
        moving_percentage=section.moving_percentage,
        migrations=DisruptionLimits(
            section.max_migrations, section.max_migrations_per_cluster, section.migration_period
        ),
        spot_fallback_after=section.spot_fallback_after,
        max_fallbacks_per_minute=section.max_fallbacks_per_minute,
        external_autoscaler=section.external_autoscaler,
        namespace=config.operator.namespace,
        namespace_labels=namespace_labels(section.namespace_selector),
        webhook=config.webhook.mode != "off",
    )


def _class_rules(labels: Sequence[str]) -> ClassRules:
    values: dict[str, list[str]] = {}
    for text in labels:
        label, equals, value = text.partition("=")
        if not (label and equals and value):
            message = f'"{text}" is not a label and its value; write it like "node.example.com/lifecycle=spot"'
            raise ConfigurationError([Problem("", "placement.spotLabels", message)])
        values.setdefault(label, []).append(value)
    return (
        ClassRules(tuple(ClassRule(label, tuple(spot)) for label, spot in values.items())) if values else ClassRules()
    )


def _window(section: WindowSection) -> DisruptionWindow | None:
    if not section.schedule:
        return None
    try:
        return parse_window(section.schedule, format_duration(section.duration), section.timezone)
    except ValueError as error:
        raise ConfigurationError([Problem("", "operator.disruptionWindow", str(error))]) from None


def placement(config: Config) -> PlacementController:
    return PlacementController(placement_settings(config))


def deletion_cost(config: Config) -> DeletionCostController:
    section = config.controllers.deletion_cost
    settings = DeletionCostSettings(
        adopt_existing=section.adopt_existing,
        ceiling=section.ceiling,
        algorithms=section.algorithms,
        max_rewrites_per_minute=section.max_rewrites_per_minute,
    )
    algorithms = discover(section.algorithms)
    if isinstance(algorithms.usable.get(Capacity.name), Capacity):
        # A plug-in is made without arguments; ours must round and read as the placement controller does.
        configured = {**algorithms.usable, Capacity.name: Capacity(placement_settings(config))}
        algorithms = Algorithms(configured, algorithms.failures)
    return DeletionCostController(settings, algorithms)


def _allocation(config: Config) -> Controller:
    section = config.allocation
    if config.operator.watch_namespaces:
        message = "the controller allocation must see all containers of a node, in whatever namespace: leave it empty"
        raise ConfigurationError([Problem("", "operator.watchNamespaces", message)])
    settings = AllocationSettings(
        namespace=section.namespace,
        ports_per_container=60 if section.reduced_ports else 100,
        shortage_wait=section.shortage_wait,
    )
    return AllocationController(settings, nonce=uuid.uuid4().hex)


MAKERS: Mapping[str, Callable[[Config], Controller]] = {
    PlacementController.name: placement,
    DeletionCostController.name: deletion_cost,
    AllocationController.name: _allocation,
}
