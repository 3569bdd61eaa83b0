"""Each key of the configuration changes what the controller does."""

from __future__ import annotations

from datetime import timedelta

import pytest

from plimsoll.config import Allocation, Config, Controllers, OperatorConfig
from plimsoll.config.sources import ConfigurationError
from plimsoll.controllers.allocation.controller import AllocationController
from plimsoll.controllers.allocation.session import Starting, Task
from plimsoll.controllers.build import controllers
from plimsoll.kube.types.resources import Key
from plimsoll.runtime.decision import Transaction
from tests import build
from tests.allocation.build import container, node
from tests.allocation.test_controller import World

KEY = Key("Node", "", "n1")


def configured(**fields: object) -> AllocationController:
    config = Config(controllers=Controllers(enabled=("allocation",)), allocation=Allocation(**fields))  # type: ignore[arg-type]
    (controller,) = controllers(config)
    assert isinstance(controller, AllocationController)
    return controller


def task(controller: AllocationController) -> Task:
    view = World(node("n1", "S1"), container("a", drives=1)).view
    (transaction,) = [one for one in controller.decide(KEY, view, build.START).actions if isinstance(one, Transaction)]
    assert isinstance(transaction.start, Starting)
    return transaction.start.task


def test_it_runs_only_where_it_is_named() -> None:
    assert "allocation" not in {controller.name for controller in controllers(Config())}


def test_drives_belong_to_nodes_so_it_must_see_all_namespaces() -> None:
    config = Config(
        operator=OperatorConfig(watch_namespaces=("storage",)), controllers=Controllers(enabled=("allocation",))
    )
    with pytest.raises(ConfigurationError) as found:
        controllers(config)
    assert "operator.watchNamespaces" in str(found.value)


def test_the_namespace_of_leases() -> None:
    assert task(configured()).lease_namespace == "weka-operator-system"
    assert task(configured(namespace="elsewhere")).lease_namespace == "elsewhere"


def test_reduced_ports() -> None:
    assert task(configured()).ports_per_container == 100
    assert task(configured(reduced_ports=True)).ports_per_container == 60


def test_how_long_a_shortage_is_waited_out() -> None:
    world = World(node("n1"), big := container("big", drives=1))
    world.controller = configured(shortage_wait=timedelta(seconds=5))
    world.controller._now = lambda: world.now
    world.refuse(big)
    assert world.decide().requeue_after == timedelta(seconds=5)


def test_two_processes_have_two_nonces() -> None:
    assert task(configured()).process != task(configured()).process
