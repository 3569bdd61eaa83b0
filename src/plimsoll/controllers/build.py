"""Builds the enabled controllers and their observers from the configuration. `run`, `simulate`, `explain` and tests call it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from plimsoll.config import Config
from plimsoll.config import DisruptionWindowConfig as WindowSection
from plimsoll.config.sources import ConfigProblem, ConfigurationError
from plimsoll.controllers.allocation.container_nodes import BY_AFFINITY, WEKA_CONTAINERS
from plimsoll.controllers.allocation.controller import AllocationController, AllocationSettings
from plimsoll.controllers.deletion_cost.algorithms.registry import Algorithms, discover
from plimsoll.controllers.deletion_cost.controller import DeletionCostController
from plimsoll.controllers.deletion_cost.spec import DeletionCostSettings
from plimsoll.controllers.nodegroups.controller import CLUSTER, NodeGroupController
from plimsoll.controllers.nodegroups.holders import Holders
from plimsoll.controllers.nodegroups.planner import PlannerWorker, WorkerPlanner
from plimsoll.controllers.nodegroups.provider_inventory import ProviderInventories, ProviderPoller
from plimsoll.controllers.nodegroups.scale_down.checks.check import Check
from plimsoll.controllers.nodegroups.scale_down.utilization import MeasuredUse, UsagePoller
from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.controllers.placement.capacity_class import ClassRule, ClassRules
from plimsoll.controllers.placement.controller import PlacementController, PlacementState
from plimsoll.controllers.placement.deletion_order import Capacity
from plimsoll.controllers.placement.replica_counts import minimum_on_demand
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.target import Rounding
from plimsoll.controllers.placement.webhook_configuration import namespace_labels
from plimsoll.controllers.placement.window import DisruptionWindow, parse_window
from plimsoll.kube.client.client import Client
from plimsoll.kube.types.durations import format_duration
from plimsoll.providers.protocol import Provider
from plimsoll.runtime.clock import Clock, RealClock
from plimsoll.runtime.decision import Controller, DisruptionLimits
from plimsoll.runtime.operator import Observer
from plimsoll.runtime.transaction import new_token
from plimsoll.scheduling.growth_options import NodeProvisioner


def controllers(
    config: Config, *, clock: Clock | None = None, token: Callable[[], str] = new_token
) -> tuple[Controller, ...]:
    """Build the enabled controllers; raises ConfigurationError if an unknown one is enabled.

    token: returns a unique string; a simulation passes its own, and its own clock, to be reproducible.
    """
    wanted = names(config)
    if missing := [name for name in wanted if name not in MAKERS]:
        message = f"unknown controller {', '.join(missing)}; available: {', '.join(MAKERS)}"
        raise ConfigurationError([ConfigProblem("", "controllers.enabled", message)])
    made: dict[str, Controller] = {}
    for name in wanted:
        if name == AllocationController.name:
            made[name] = allocation(config, clock=clock, nonce=token())
        elif name == NodeGroupController.name:
            made[name] = node_groups(config, clock=clock)
        else:
            made[name] = MAKERS[name](config)
    groups = made.get(NodeGroupController.name)
    if PlacementController.name in made and isinstance(groups, NodeGroupController):
        made[PlacementController.name] = placement(config, groups)
    return tuple(made.values())


def names(config: Config) -> Sequence[str]:
    """Names of the enabled controllers."""
    return config.controllers.enabled or tuple(name for name in MAKERS if name not in ONLY_IF_NAMED)


def placement_settings(config: Config) -> PlacementSettings:
    """The settings of the placement controller; raises ConfigurationError if they are invalid."""
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
        installation=config.operator.namespace,
        namespace_labels=namespace_labels(section.namespace_selector),
        webhook=config.webhook.mode != "off",
    )


def _class_rules(labels: Sequence[str]) -> ClassRules:
    values: dict[str, list[str]] = {}
    for text in labels:
        label, equals, value = text.partition("=")
        if not (label and equals and value):
            message = f'"{text}" is not label=value; write it like "node.example.com/lifecycle=spot"'
            raise ConfigurationError([ConfigProblem("", "placement.spotLabels", message)])
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
        raise ConfigurationError([ConfigProblem("", "operator.disruptionWindow", str(error))]) from None


def placement(config: Config, provisioner: NodeProvisioner | None = None) -> PlacementController:
    settings = placement_settings(config)
    return PlacementController(settings, PlacementState(settings, provisioner))


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
        implied = section.order_placed_workloads and PlacementController.name in names(config)
        capacity = Capacity(placement_settings(config), placement_runs=implied)
        configured = {**algorithms.usable, Capacity.name: capacity}
        algorithms = Algorithms(configured, algorithms.failures)
    return DeletionCostController(settings, algorithms)


def allocation(config: Config, *, clock: Clock | None = None, nonce: str = "") -> AllocationController:
    section = config.allocation
    if config.operator.watch_namespaces:
        message = "the allocation controller must see the containers of a node in all namespaces; leave it empty"
        raise ConfigurationError([ConfigProblem("", "operator.watchNamespaces", message)])
    settings = AllocationSettings(
        namespace=section.namespace,
        ports_per_container=60 if section.reduced_ports else 100,
        shortage_wait=section.shortage_wait,
    )
    return AllocationController(settings, nonce=nonce or new_token(), now=(clock or RealClock()).now)


def node_groups(config: Config, *, clock: Clock | None = None) -> NodeGroupController:
    section = config.nodegroups
    settings = NodeGroupSettings(
        expander=section.expander,
        balance_similar_groups=section.balance_similar_groups,
        unschedulable_pod_grace=section.unschedulable_pod_grace,
        provisioning_timeout=section.provisioning_timeout,
        joining_timeout=section.joining_timeout,
        startup_taints=section.startup_taints,
        backoff_base=section.backoff,
        backoff_cap=max(section.backoff, section.max_backoff),
        drain_timeout=section.drain_timeout,
        unready_timeout=section.unready_timeout,
        single_replicas=section.single_replicas,
        max_parallel_drains=section.max_parallel_drains,
        max_empty_removals=section.max_empty_removals,
        max_inventory_age=max(timedelta(minutes=1), 3 * section.poll_interval),
        namespace=config.operator.namespace,
        holders=Holders(WEKA_CONTAINERS, BY_AFFINITY) if AllocationController.name in names(config) else None,
    )
    measured = MeasuredUse() if section.utilization_source == "metrics" else None
    return NodeGroupController(
        settings, ProviderInventories(), further_checks=_checks_of_others(config), measured=measured,
        planner=WorkerPlanner(clock or RealClock()),
    )  # fmt: skip


def _checks_of_others(config: Config) -> list[Check]:
    """Checks of the other controllers that may keep a node."""
    if PlacementController.name not in names(config):
        return []
    placing = placement_settings(config)
    return [
        Check(
            "minimum-on-demand",
            "pods",
            lambda candidate, check_context: minimum_on_demand(candidate.pods, check_context.context.view, placing),
        )
    ]


def observers(
    config: Config, running: Sequence[Controller], client: Client, providers: Mapping[str, Provider], clock: Clock
) -> list[Observer]:
    """What looks beyond the view for the controllers that need it. In read-only mode no provider is called."""
    interval = config.nodegroups.poll_interval
    found: list[Observer] = []
    for one in running:
        if not isinstance(one, NodeGroupController):
            continue
        if not config.operator.read_only_mode:
            found.append(ProviderPoller(one.inventories, providers, clock, interval=interval, cluster_key=CLUSTER))
        if isinstance(one.planner, WorkerPlanner):
            found.append(PlannerWorker(one.planner, clock))
        if one.measured is not None:
            found.append(UsagePoller(one.measured, client, clock, interval=interval, cluster_key=CLUSTER))
    return found


MAKERS: Mapping[str, Callable[[Config], Controller]] = {
    PlacementController.name: placement,
    DeletionCostController.name: deletion_cost,
    AllocationController.name: allocation,
    NodeGroupController.name: node_groups,
}
# Enabled only if named: two independent allocators would allocate the same drive, and two autoscalers would undo each other's
# work. Both also need CRDs that must be installed first.
ONLY_IF_NAMED = (AllocationController.name, NodeGroupController.name)
