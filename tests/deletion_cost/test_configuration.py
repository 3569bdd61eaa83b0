"""Each key of the operator's configuration reaches the controller and changes what it does."""

from __future__ import annotations

from typing import Any

from plimsoll.config import Config, Controllers, DeletionCost
from plimsoll.controllers.build import controllers
from plimsoll.controllers.deletion_cost.controller import DeletionCostController
from plimsoll.controllers.deletion_cost.spec import ENABLED, TYPE
from tests.deletion_cost.scene import TOP, Scene, foreign_value, written


def configured(**keys: Any) -> Scene:
    """A scene whose controller is made as the operator makes it."""
    config = Config(controllers=Controllers(enabled=("deletion-cost",), deletion_cost=DeletionCost(**keys)))
    (made,) = controllers(config)
    assert isinstance(made, DeletionCostController)
    scene = Scene({ENABLED: "true", TYPE: "zone"})
    scene.controller = made
    return scene


def test_ceiling() -> None:
    scene = configured(ceiling=500)
    scene.add("one", "a")
    assert written(scene.decide()) == {"one": 500}


def test_adopt_existing() -> None:
    for adopt in (False, True):
        scene = configured(adopt_existing=adopt)
        for name, zone, value in (("a0", "a", TOP - 3), ("b0", "b", TOP), ("b1", "b", TOP - 1)):
            scene.add(name, zone, annotations=foreign_value(value))
        assert written(scene.decide()) == ({"a0": TOP} if adopt else {})


def test_max_rewrites_per_minute() -> None:
    for limit in (0, 1, 2):
        scene = configured(max_rewrites_per_minute=limit)
        scene.add_with_values(a=[TOP - 8, TOP - 9], b=[TOP, TOP - 1, TOP - 2])
        assert len(scene.decide().actions) == limit


def test_algorithms() -> None:
    scene = configured(algorithms=("by-moon",))
    scene.add("one", "a")
    decision = scene.decide()
    assert decision.actions == ()
    assert "by-moon" in decision.problems[0].message
