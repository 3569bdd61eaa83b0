"""Every key of the configuration changes what is done."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from plimsoll.config import Config, Controllers, OperatorConfig
from plimsoll.config.nodegroups import NodeGroups
from plimsoll.controllers.build import controllers, observers
from plimsoll.controllers.nodegroups.controller import NodeGroupController
from plimsoll.controllers.nodegroups.provider_inventory import ProviderPoller
from plimsoll.controllers.nodegroups.scale_down.utilization import MeasuredUse
from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.kube.types.resources import NODES
from plimsoll.runtime.clock import RealClock
from tests.nodegroups.world import World

NOBODY: Any = None  # no call to the API server is part of this
QUICK = {"underutilizationDuration": "20s", "cooldownSeconds": 10}


def settings(**section: Any) -> NodeGroupSettings:
    config = Config(controllers=Controllers(enabled=("nodegroups",)), nodegroups=NodeGroups(**section))
    (controller,) = controllers(config)
    assert isinstance(controller, NodeGroupController)
    return controller._settings


def world(**section: Any) -> World:
    return World(settings(**{"unschedulable_pod_grace": timedelta(0), **section}))


def test_it_runs_only_where_it_is_named() -> None:
    assert "nodegroups" not in [controller.name for controller in controllers(Config())]


def test_nobody_asks_providers_in_read_only_mode() -> None:
    config = Config(operator=OperatorConfig(read_only_mode=True), controllers=Controllers(enabled=("nodegroups",)))
    made = observers(config, controllers(config), NOBODY, {}, RealClock())
    assert not [one for one in made if isinstance(one, ProviderPoller)]


def test_poll_interval() -> None:
    config = Config(
        controllers=Controllers(enabled=("nodegroups",)), nodegroups=NodeGroups(poll_interval=timedelta(minutes=2))
    )
    observer, _ = observers(config, controllers(config), NOBODY, {}, RealClock())
    assert isinstance(observer, ProviderPoller)
    assert observer._interval == timedelta(minutes=2)
    assert settings(poll_interval=timedelta(minutes=2)).max_inventory_age == timedelta(minutes=6), (
        "or none would be fresh"
    )


def test_utilization_source() -> None:
    def made(source: str) -> tuple[MeasuredUse | None, list[str]]:
        section = NodeGroups(utilization_source=source)  # type: ignore[arg-type]
        config = Config(controllers=Controllers(enabled=("nodegroups",)), nodegroups=section)
        (controller,) = controllers(config)
        assert isinstance(controller, NodeGroupController)
        return controller.measured, [
            type(one).__name__ for one in observers(config, [controller], NOBODY, {}, RealClock())
        ]

    assert made("requests") == (None, ["ProviderPoller", "PlannerWorker"])
    assert made("metrics") == (MeasuredUse(), ["ProviderPoller", "PlannerWorker", "UsagePoller"])


def test_unschedulable_pod_grace() -> None:
    one = world(unschedulable_pod_grace=timedelta(seconds=30))
    one.group()
    one.workload("web", 1)
    one.run(25)
    assert not one.members()
    one.run(10)
    assert len(one.members()) == 1


def test_balance_similar_groups() -> None:
    def nodes_there(*, balance: bool) -> int:
        one = world(balance_similar_groups=balance)
        one.group("here", desiredNodes=2)
        one.workload("web", 4)
        one.run(30)
        one.group("there", datacenterID="dc-2")
        one.scale("web", 8)
        one.run(5)
        return sum(member.spec.node_group_name == "there" for member in one.members())

    assert nodes_there(balance=True) == 2
    assert nodes_there(balance=False) < 2


@pytest.mark.parametrize(("seconds", "failed"), [(60, True), (600, False)])
def test_provisioning_timeout(seconds: int, failed: bool) -> None:
    one = world(provisioning_timeout=timedelta(seconds=seconds))
    one.cloud.makes = timedelta(hours=1)
    one.group()
    one.workload("web", 1)
    one.run(90)
    assert bool(one.the_group().status.backoffs) == failed


@pytest.mark.parametrize(("seconds", "failed"), [(60, True), (600, False)])
def test_joining_timeout(seconds: int, failed: bool) -> None:
    one = world(joining_timeout=timedelta(seconds=seconds))
    one.cloud.never_join.add("small")
    one.group()
    one.workload("web", 1)
    one.run(90)
    assert bool(one.the_group().status.backoffs) == failed


def test_backoff_doubles_up_to_its_maximum() -> None:
    one = world(backoff=timedelta(seconds=20), max_backoff=timedelta(seconds=50))
    one.cloud.quota = 0
    one.group()
    one.workload("web", 1)
    waits = set()
    for _ in range(250):
        one.run(1)
        for backoff in one.the_group().status.backoffs:
            assert backoff.until is not None and backoff.last_failure is not None
            waits.add((backoff.failures, round((backoff.until - backoff.last_failure).total_seconds())))
    assert [wait for _, wait in sorted(waits)][:4] == [20, 40, 50, 50]


@pytest.mark.parametrize(("drains", "tainted"), [(0, 0), (1, 1), (2, 2)])
def test_max_parallel_drains(drains: int, tainted: int) -> None:
    one = world(max_parallel_drains=drains)
    one.group("rest", minNodes=2, offeringIDs=["large"], scaleDownPolicy={"enabled": False})
    one.run(20)
    one.group(desiredNodes=2, scaleDownPolicy=QUICK)
    one.workload("web", 8, cpu="100m")
    one.run(20)
    for node in one.api.typed(NODES):  # pods on every node, whatever the scheduler has made of it
        one.bind("web", node.name)
        one.bind("web", node.name)
    one.evictions_refused = {pod.name for pod in one.pods()}
    one.change_group(desiredNodes=None)
    one.run(60)
    assert sum(bool(node.spec.taints) for node in one.api.typed(NODES)) == tainted


@pytest.mark.parametrize(("at_once", "left"), [(0, 4), (10, 0)])
def test_max_empty_removals(at_once: int, left: int) -> None:
    one = world(max_empty_removals=at_once)
    one.group(desiredNodes=4, scaleDownPolicy=QUICK)
    one.run(20)
    one.change_group(desiredNodes=None)
    one.run(60)
    assert len(one.cloud.machines) == left


@pytest.mark.parametrize(("seconds", "phase"), [(30, "Ready"), (600, "Terminating")])
def test_drain_timeout(seconds: int, phase: str) -> None:
    one = world(drain_timeout=timedelta(seconds=seconds))
    one.group("rest", minNodes=1, offeringIDs=["large"], scaleDownPolicy={"enabled": False})
    one.run(20)
    one.group(desiredNodes=1, scaleDownPolicy=QUICK)
    one.workload("web", 2, cpu="100m")
    one.run(20)
    name = next(member.node_name for member in one.members() if member.spec.node_group_name == "workers")
    one.bind("web", name)
    one.evictions_refused = {pod.name for pod in one.pods()}
    one.change_group(desiredNodes=None)
    one.run(80)
    (member,) = [member for member in one.members() if member.spec.node_group_name == "workers"]
    assert member.phase == phase


@pytest.mark.parametrize(("seconds", "left"), [(60, 0), (1200, 1)])
def test_unready_timeout(seconds: int, left: int) -> None:
    one = world(unready_timeout=timedelta(seconds=seconds))
    one.group(desiredNodes=1, scaleDownPolicy={"cpuThreshold": 0, "cooldownSeconds": 1})
    one.run(20)
    one.change_group(desiredNodes=None)
    one.unready(one.members()[0].node_name)
    one.run(120)
    assert len(one.cloud.machines) == left
