"""Another installation that places the same workload stops moves, and the blocker names it."""

from __future__ import annotations

from datetime import timedelta

from plimsoll.controllers.placement.annotations import PLACED_BY
from plimsoll.controllers.placement.settings import PlacementSettings
from tests.placement.scene import ON_DEMAND, Scene, codes, drifted, evicted, stamp

MINUTE = timedelta(minutes=1)


def another(scene: Scene, name: str = "od-1-0", by: str = "elsewhere", age: timedelta = MINUTE) -> None:
    scene.pod(name, node="od-1", mark=ON_DEMAND, annotations={PLACED_BY: by}, creationTimestamp=stamp(scene.now - age))


def test_what_another_installation_placed_lately_stops_the_moving_and_is_told():
    scene = drifted()
    another(scene)
    another(scene, "od-1-1", age=2 * MINUTE)
    decision = scene.decide()
    assert codes(decision) == ["AnotherInstallation"]
    assert "pod od-1-0 got its class from another installation, in namespace elsewhere" in decision.reason.message
    assert decision.blockers[0].until == scene.now + 9 * MINUTE
    (problem,) = decision.problems
    assert problem.code == "AnotherInstallation"
    for words in ("namespace elsewhere", "the one in plimsoll-system", "operator.watchNamespaces"):
        assert words in problem.message
    assert "od-1" not in problem.message, "the next pod is no other problem"


def test_what_it_placed_a_while_ago_does_not():
    """It may be gone: whoever moves an installation to another namespace must not wait for every pod to be made anew."""
    scene = drifted()
    another(scene, age=10 * MINUTE)
    decision = scene.decide()
    assert evicted(decision)
    assert decision.problems == ()


def test_it_is_told_also_where_nothing_should_move():
    scene = Scene()
    scene.running(6, 4)
    another(scene)
    assert "AnotherInstallation" in [problem.code for problem in scene.decide().problems]


def test_what_we_placed_ourselves_does_not():
    scene = drifted()
    another(scene, by=PlacementSettings().installation)
    assert evicted(scene.decide())
