"""The last look at a plan notices each kind of mistake that counting could make."""

from __future__ import annotations

import numpy as np
import pytest

from plimsoll.kube.types.core import Pod
from plimsoll.scheduling.group_placement import Placer
from plimsoll.scheduling.plan import is_valid
from plimsoll.scheduling.plan_state import PlanState
from plimsoll.scheduling.pod_groups import ShapeGroups, waiting
from tests.scheduling import menus
from tests.scheduling.cases import Case, node, pod
from tests.scheduling.menus import HOSTNAME, ZONE, apart, together

APP = {"metadata": {"labels": {"app": "a"}}}
OF_APP = {"labelSelector": {"matchLabels": {"app": "a"}}}
NODES = (
    node("n0", menus.CAPACITIES[0], zone="z1"),
    node("n1", menus.CAPACITIES[0], zone="z2"),
    node("tainted", menus.CAPACITIES[0], zone="z1", taints=[{"key": "k", "effect": "NoSchedule"}]),
)


def sound(rows: list[int], *pods: Pod) -> bool:
    """Put one pod on each of the rows, whatever the rules say, and ask."""
    snapshot = Case(nodes=NODES).snapshot()
    who = waiting(snapshot.classes, pods)
    groups = ShapeGroups(snapshot.classes, who, np.lexsort(who))
    board = PlanState(snapshot, {pod_class.index: pod_class for pod_class, _ in groups.runs()}.values())
    placer = Placer(board)
    row = iter(rows)
    placed = []
    for group, pods_of_group in zip(map(groups.__getitem__, range(len(groups))), groups.sizes.tolist(), strict=True):
        here = [next(row) for _ in range(pods_of_group)]
        for at in here:
            board.place(group.pod_class, group.shape, np.array([at]), np.array([1]))
        placed.append((placer.constraints(group.pod_class), np.array(here, np.intp)))
    return is_valid(board, placed)


@pytest.mark.parametrize(
    ("rules", "lawful", "unlawful"),
    [
        pytest.param(menus.SIZES[1], [0, 1], [0, 0, 0], id="amounts"),
        pytest.param(apart({"topologyKey": HOSTNAME, **OF_APP}), [0, 1], [1, 1], id="anti-affinity"),
        pytest.param(apart({"topologyKey": ZONE, **OF_APP}), [0, 1], [0, 0], id="anti-affinity by zone"),
        pytest.param(menus.HOST_PORTS[0], [0, 1], [0, 0], id="host port"),
        pytest.param({}, [0, 1], [0, 2], id="taint"),
        pytest.param(
            together({"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "b"}}}), [], [0], id="company"
        ),
    ],
)
def test_mistakes_are_noticed(rules: menus.Fragment, lawful: list[int], unlawful: list[int]) -> None:
    def pods(rows: list[int]) -> list[Pod]:
        return [pod(f"p{number}", APP, rules) for number in range(len(rows))]

    assert sound(lawful, *pods(lawful))
    assert not sound(unlawful, *pods(unlawful))


def test_a_node_without_the_label_is_in_nobodys_way() -> None:
    rules = apart({"topologyKey": "rack", **OF_APP})
    assert sound([0, 0], pod("p0", APP, rules), pod("p1", APP, rules))
