"""The minimum holds in scale-downs: managed workloads get the order `capacity` without opting in to deletion costs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.config import Config, Controllers, DeletionCost
from plimsoll.controllers.build import deletion_cost
from plimsoll.controllers.deletion_cost.algorithms.zone import Zone
from plimsoll.controllers.deletion_cost.spec import ENABLED as COSTS_ENABLED
from plimsoll.controllers.placement.deletion_order import Capacity
from plimsoll.controllers.placement.spec import ENABLED, MIN_ON_DEMAND, SPOT_PERCENTAGE
from plimsoll.controllers.placement.target import Share, target
from plimsoll.kube.types.resources import DEPLOYMENTS, PODS
from tests.deletion_cost.scene import Scene, foreign_value

SPOT_LABEL = {"karpenter.sh/capacity-type": "spot"}


def scene(annotations: Mapping[str, str], *, spot: int, on_demand: int, placement_runs: bool = True) -> Scene:
    """A Deployment on one spot and one on-demand node; the on-demand pods are the younger ones, which go first otherwise."""
    capacity = Capacity(placement_runs=placement_runs)
    made = Scene(annotations, algorithms={"zone": Zone(), "capacity": capacity})
    made.add_node("spot", zone="a", labels=SPOT_LABEL)
    made.add_node("od", zone="a")
    for number in range(spot):
        made.add(f"spot-{number}", node="spot")
    for number in range(on_demand):
        made.add(f"od-{number}", node="od")
    return made


def asking(percentage: int, minimum: int, **more: str) -> dict[str, str]:
    return {ENABLED: "true", SPOT_PERCENTAGE: f"{percentage}%", MIN_ON_DEMAND: str(minimum), **more}


def left_on_demand(made: Scene, count: int) -> int:
    """On-demand pods that are left after a scale-down to `count`, once every value is written."""
    made.settle()
    (order,) = made.decide().orders
    gone = {entry.pod for entry in order.departures[: len(made.pods) - count]}
    return sum(1 for name in made.pods if name.startswith("od-") and name not in gone)


def test_a_scale_down_keeps_the_minimum_without_another_annotation():
    assert left_on_demand(scene(asking(50, 5), spot=5, on_demand=5), 6) == 5


def test_what_is_left_below_the_minimum_is_on_demand():
    """An HPA at night: a minimum of three, and 6 goes down to 2."""
    assert left_on_demand(scene(asking(50, 3), spot=3, on_demand=3), 2) == 2


@given(st.integers(1, 12), st.integers(0, 100), st.integers(0, 12), st.data())
def test_for_every_count_and_share_the_split_stays_exact_on_the_way_down(
    replicas: int, percentage: int, minimum: int, data: st.DataObject
):
    share = Share(minimum, percentage)
    split = target(replicas, share)
    count = data.draw(st.integers(0, replicas))
    made = scene(asking(percentage, minimum), spot=split.spot, on_demand=split.on_demand)
    assert left_on_demand(made, count) == target(count, share).on_demand


@pytest.mark.parametrize(
    "annotations",
    [
        {ENABLED: "true"},
        {ENABLED: "false", SPOT_PERCENTAGE: "50%"},
        {ENABLED: "true", SPOT_PERCENTAGE: "50"},
        asking(50, 5, **{COSTS_ENABLED: "false"}),
        {},
    ],
    ids=["bare", "off", "invalid", "opted out", "silent"],
)
def test_whoever_is_not_managed_or_opts_out_gets_no_values(annotations: Mapping[str, str]):
    made = scene(annotations, spot=2, on_demand=2)
    assert made.decide().actions == ()
    assert made.controller.keys(DEPLOYMENTS, made.deployment, made.view) in ((), (DEPLOYMENTS.key(made.deployment),))


def test_without_the_placement_controller_nothing_is_implied():
    made = scene(asking(50, 5), spot=5, on_demand=5, placement_runs=False)
    assert (made.decide().actions, made.controller.keys(DEPLOYMENTS, made.deployment, made.view)) == ((), ())


def test_values_that_others_wrote_stay():
    made = scene(asking(50, 2), spot=2, on_demand=2)
    made.add("od-9", node="od", annotations=foreign_value(7))
    made.settle()
    assert made.costs["od-9"] == 7


def test_values_go_when_the_workload_is_no_longer_placed():
    made = scene(asking(50, 2), spot=2, on_demand=2)
    made.settle()
    assert len(made.costs) == 4
    made.deployment = replace(made.deployment, metadata=replace(made.deployment.metadata, annotations={}))
    keys = made.controller.keys(PODS, made.pods["od-0"], made.view)
    assert list(keys) == [DEPLOYMENTS.key(made.deployment)]
    made.settle()
    assert made.costs == {}


@pytest.mark.parametrize(
    ("enabled", "ordered", "implied"),
    [
        (("placement", "deletion-cost"), True, True),
        (("placement", "deletion-cost"), False, False),
        (("deletion-cost",), True, False),
    ],
)
def test_the_configuration_decides(enabled: tuple[str, ...], ordered: bool, implied: bool):
    section = Controllers(enabled=enabled, deletion_cost=DeletionCost(order_placed_workloads=ordered))  # type: ignore[arg-type]
    controller = deletion_cost(Config(controllers=section))
    made = scene(asking(50, 2), spot=2, on_demand=2)
    assert bool(controller.decide(DEPLOYMENTS.key(made.deployment), made.view, made.now).actions) is implied
