"""The worked example of the documentation is what the code decides."""

from __future__ import annotations

import re
from pathlib import Path

from plimsoll.controllers.deletion_cost.order import DeletionOrder
from tests.deletion_cost.scene import TOP, Scene, our_value, written

PAGE = (Path(__file__).parents[2] / "docs" / "deletion-cost.md").read_text()
EXAMPLE = (
    Path(__file__).parents[2] / "examples" / "deletion_cost_by_age" / "src" / "deletion_cost_by_age" / "__init__.py"
)


def worked_example() -> tuple[dict[str, int], DeletionOrder]:
    scene = Scene()
    for zone, depths in {"a": (0, 1, 2, 3), "b": (0, 1, 2), "c": (1, 2)}.items():
        for number, depth in enumerate(depths, 1):
            scene.add(f"web-{zone}{number}", zone, annotations=our_value(TOP - depth))
    decision = scene.decide()
    (order,) = decision.orders
    return written(decision), order


def test_the_rewrite_is_the_one_that_is_told() -> None:
    rewrites, _ = worked_example()
    ((pod, value),) = rewrites.items()
    assert f"pod `{pod}` gets {value} instead of" in PAGE


def test_the_order_of_deletion_is_the_one_that_is_shown() -> None:
    _, order = worked_example()
    shown = re.findall(r"^\| \d \| (\S+) \| (\S+) \| (\d+) \| (\S+) \|$", PAGE, re.MULTILINE)
    left = {"a": 4, "b": 3, "c": 2}
    for departure, row in zip(order.departures, shown, strict=True):
        left[departure.zone] -= 1
        assert row == (
            departure.pod,
            departure.zone,
            str(departure.cost),
            "/".join(str(left[zone]) for zone in sorted(left)),
        )


def test_the_algorithm_that_is_shown_is_the_example() -> None:
    code = EXAMPLE.read_text()
    (shown,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    for line in (line.strip() for line in shown.splitlines()):
        assert line.startswith("def assign") or line.replace("costs = {}", "costs: dict[str, int] = {}") in code, line
