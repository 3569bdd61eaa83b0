"""Pods that differ in labels which no selector mentions are one group; as soon as one mentions them, they are not."""

from __future__ import annotations

import pytest

from plimsoll.kube.types.core import Pod
from plimsoll.scheduling.model import Template
from plimsoll.scheduling.pack import pack, packing_request
from tests.scheduling import menus
from tests.scheduling.cases import Case, node, offering, pod
from tests.scheduling.menus import HOSTNAME, ZONE, apart, evenly, together

MENTIONS_INDEX = {"labelSelector": {"matchExpressions": [{"key": "index", "operator": "Exists"}]}}
NODE = menus.CAPACITIES[3]


def replicas(count: int) -> tuple[Pod, ...]:
    return tuple(
        pod(f"p{n}", menus.SIZES[0], {"metadata": {"labels": {"app": "a", "index": str(n)}}}) for n in range(count)
    )


def groups(case: Case) -> int:
    with packing_request(case.snapshot(), case.pending, case.templates, coming=(), headroom=False) as request:
        class_of, shape_of = request.waiting
        assert len(class_of) == len(shape_of) == len(case.pending)
        return len(set(zip(class_of.tolist(), shape_of.tolist(), strict=True)))


def test_they_are_one_group() -> None:
    assert groups(Case(pending=replicas(5))) == 1


def test_every_pod_is_answered_under_its_own_name() -> None:
    case = Case(nodes=(node("n", NODE),), pending=replicas(5))
    assert pack(case.snapshot(), case.pending).placements == {f"uid-p{n}": "n" for n in range(5)}


@pytest.mark.parametrize(
    "rule",
    [
        together({"topologyKey": ZONE, **MENTIONS_INDEX}),
        apart({"topologyKey": HOSTNAME, **MENTIONS_INDEX}),
        evenly({"topologyKey": ZONE, **MENTIONS_INDEX}),
    ],
    ids=["affinity", "anti-affinity", "spread"],
)
def test_a_selector_that_mentions_the_label_tells_them_apart(rule: menus.Fragment) -> None:
    asking = pod("asking", menus.SIZES[0], rule)
    assert groups(Case(pending=(*replicas(3), asking))) == 4
    bound = pod("bound", menus.SIZES[0], rule, node="n")
    assert groups(Case(nodes=(node("n", NODE),), bound=(bound,), pending=replicas(3))) == 3


def test_so_does_the_selector_of_a_daemon() -> None:
    daemon = pod("daemon", menus.SIZES[0], apart({"topologyKey": HOSTNAME, **MENTIONS_INDEX}))
    template = Template("t", (offering("o", NODE, 1.0),), daemons=(daemon,))
    assert groups(Case(pending=replicas(3), templates=(template,))) == 3
