"""Settings change: what was computed for others is computed anew, and what is switched off is cleaned up."""

from __future__ import annotations

from msgspec.structs import replace

from plimsoll.controllers.deletion_cost.spec import DeletionCostSettings
from plimsoll.controllers.deletion_cost.values import COST, VALUE_RECORD
from tests.deletion_cost.scene import TOP, Scene, foreign_value, our_value, written


def covered(**settings: object) -> Scene:
    scene = Scene(settings=DeletionCostSettings(**settings))  # type: ignore[arg-type]
    scene.add_with_values(a=[TOP, TOP - 1], b=[TOP])
    return scene


def test_switching_off_removes_what_is_ours_and_nothing_else() -> None:
    scene = covered()
    scene.add("theirs", "b", annotations=foreign_value(7) | {"team": "blue"})
    scene.add("changed", "b", annotations=our_value(TOP - 3) | {COST: "8"})
    scene.annotate(enabled="false")
    scene.carry_out(scene.decide())
    assert scene.costs == {"theirs": 7, "changed": 8}
    assert not any(VALUE_RECORD in pod.annotations for pod in scene.pods.values())
    assert scene.pods["theirs"].annotations["team"] == "blue"
    assert scene.decide().actions == ()


def test_dropping_the_annotation_is_switching_off() -> None:
    scene = covered()
    scene.annotate(enabled=None)
    decision = scene.decide()
    assert len(decision.actions) == 3
    assert [note.reason for note in decision.events] == ["DeletionCostRemoved"]


def test_a_deployment_that_was_never_enabled_is_left_alone() -> None:
    scene = Scene({})
    scene.add("one", "a", annotations=foreign_value(TOP))
    scene.add("two", "a")
    assert scene.decide().actions == ()
    assert scene.decide().gauges == ()


def test_switching_off_under_adoption_leaves_what_was_never_touched() -> None:
    """A value near the top without our mark may be anyone's: it is rewritten if need be, but not taken away."""
    scene = covered(adopt_existing=True)
    scene.add("theirs", "b", annotations=foreign_value(TOP - 1))
    scene.annotate(enabled="false")
    scene.carry_out(scene.decide())
    assert scene.costs == {"theirs": TOP - 1}


def test_another_label_recomputes() -> None:
    scene = covered()
    for node, rack in (("node-a", "r1"), ("node-b", "r1")):
        labels = {**scene.nodes[node].labels, "rack": rack}
        scene.nodes[node] = replace(scene.nodes[node], metadata=replace(scene.nodes[node].metadata, labels=labels))
    scene.annotate(spread_by="rack")
    decision = scene.decide()
    assert sorted(written(decision).values()) == [TOP - 2, TOP - 1, TOP]
    assert [note.reason for note in decision.events] == ["DeletionCostRecomputed"]
    scene.carry_out(decision)
    assert scene.decide().actions == ()


def test_another_label_that_no_node_has_writes_nothing_and_says_so() -> None:
    scene = covered()
    scene.annotate(spread_by="rack")
    decision = scene.decide()
    assert decision.actions == ()
    assert {problem.code for problem in decision.problems} == {"NodeUnlabelled"}


def test_another_type_recomputes() -> None:
    class Flat:
        name = "flat"

        def assign(self, workload, pods, nodes, settings):
            return {replica.pod.uid: 5 for replica in pods}

    scene = Scene(algorithms={"flat": Flat(), "zone": Scene().controller._algorithms.usable["zone"]})
    scene.add_with_values(a=[TOP, TOP - 1])
    scene.annotate(type="flat")
    scene.carry_out(scene.decide())
    assert set(scene.costs.values()) == {5}
    scene.annotate(type="zone")
    scene.carry_out(scene.decide())
    assert set(scene.costs.values()) == {TOP, TOP - 1}


def test_a_lowered_ceiling_recomputes_what_is_above() -> None:
    scene = covered(ceiling=1000)
    scene.carry_out(scene.decide())
    assert scene.costs == {"a0": 1000, "a1": 999, "b0": 1000}, "in the order that they had"
    assert scene.decide().actions == ()


def test_values_of_the_reference_controller_are_someone_elses_unless_adopted() -> None:
    for adopt in (False, True):
        scene = Scene(settings=DeletionCostSettings(adopt_existing=adopt))
        for zone, values in {"a": [TOP, TOP - 3], "b": [TOP, TOP - 1, TOP - 2]}.items():
            for position, value in enumerate(values):
                scene.add(f"{zone}{position}", zone, annotations=foreign_value(value))
        costs = written(scene.decide())
        assert costs == ({"a1": TOP - 1} if adopt else {})


def test_adopting_writes_nothing_while_nothing_is_uneven() -> None:
    scene = Scene(settings=DeletionCostSettings(adopt_existing=True))
    scene.add("a0", "a", annotations=foreign_value(TOP))
    scene.add("b0", "b", annotations=foreign_value(TOP))
    decision = scene.decide()
    assert decision.actions == ()
    assert {departure.value_owner for departure in decision.orders[0].departures} == {"ours"}


def test_adopting_under_a_lowered_ceiling_brings_values_down() -> None:
    scene = Scene(settings=DeletionCostSettings(adopt_existing=True, ceiling=1000))
    scene.add("a0", "a", annotations=foreign_value(TOP))
    scene.add("b0", "b", annotations=foreign_value(TOP))
    assert set(written(scene.decide()).values()) == {1000}
