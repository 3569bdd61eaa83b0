"""`fits` says yes exactly where the checker does, and the rule that it names is one that the checker names too."""

from __future__ import annotations

import pytest
from hypothesis import given

from plimsoll.scheduling.fits import fits, reasons_by_node
from plimsoll.scheduling.model import Constraint
from tests.scheduling.cases import Case, node, pod
from tests.scheduling.scenes import SCENES, Scene
from tests.scheduling.strategies import GATED, campaign, clusters, examples
from tests.scheduling.words import ENGINE


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.says)
def test_each_planted_fault(scene: Scene) -> None:
    case = Case(nodes=tuple(scene.nodes), bound=tuple(scene.bound))
    refusal = fits(case.snapshot(), scene.pod, scene.nodes[0].name)
    if not scene.fault:
        assert refusal is None
    else:
        assert refusal is not None
        assert scene.fault in ENGINE[refusal.rule]
        assert refusal.message


def check_every_pair(case: Case) -> None:
    snapshot, now = case.snapshot(), case.at_hand()
    for asking in case.pending:
        asked = now.ask(asking)
        together = reasons_by_node(snapshot, asking, [place.name for place in case.nodes])
        for place in case.nodes:
            refusal = fits(snapshot, asking, place.name)
            assert together[place.name] == refusal
            if asking.spec.scheduling_gates:
                assert refusal is not None and refusal.rule is Constraint.GATED
                continue
            expected = asked.refusals(place)
            if refusal is None:
                assert not expected, f"{asking.name} on {place.name} breaks {expected}, and fits says yes"
            else:
                said = f"{asking.name} on {place.name}: fits says {refusal}, the checker {expected or 'yes'}"
                assert ENGINE[refusal.rule] & set(expected), said


@examples(90)
@given(clusters(max_templates=0))
def test_every_pair_of_generated_clusters(case: Case) -> None:
    check_every_pair(case)


@pytest.mark.soak
@campaign(30_000)
@given(clusters(max_nodes=6, max_bound=10, max_templates=0))
def test_every_pair_of_many_more_clusters(case: Case) -> None:
    check_every_pair(case)


def test_a_node_that_is_not_there() -> None:
    refusal = fits(Case(nodes=(node("n"),)).snapshot(), pod("p"), "elsewhere")
    assert refusal is not None and refusal.rule is Constraint.NODE_UNKNOWN
    assert "elsewhere" in refusal.message


def test_a_gated_pod_fits_nowhere() -> None:
    refusal = fits(Case(nodes=(node("n"),)).snapshot(), pod("p", GATED), "n")
    assert refusal is not None and refusal.rule is Constraint.GATED
    assert "example.com/hold" in refusal.message
