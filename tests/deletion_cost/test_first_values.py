"""A ready pod without a value gets the first that is free among the pods of its ReplicaSet in its zone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from plimsoll.controllers.deletion_cost.spec import DeletionCostSettings
from plimsoll.runtime.decision import Patch
from tests.deletion_cost.scene import TOP, Scene, foreign_value, our_value, written


def test_each_zone_counts_down_from_the_top() -> None:
    scene = Scene()
    for name, zone in (("a0", "a"), ("a1", "a"), ("b0", "b")):
        scene.add(name, zone)
    costs = written(scene.decide())
    assert {costs["a0"], costs["a1"]} == {TOP, TOP - 1}
    assert costs["b0"] == TOP


def test_the_first_free_value_is_taken() -> None:
    scene = Scene()
    scene.add_with_values(a=[TOP, TOP - 2])
    scene.add("new", "a")
    assert written(scene.decide()) == {"new": TOP - 1}


def test_values_of_other_zones_and_other_replica_sets_are_free() -> None:
    scene = Scene()
    scene.add_replica_set("web-2")
    scene.add_with_values(b=[TOP])
    scene.add("old", "a", of="web-2", annotations=our_value(TOP))
    scene.add("new", "a")
    assert written(scene.decide()) == {"new": TOP}


def test_a_value_of_someone_elses_counts_as_used_and_stays() -> None:
    scene = Scene()
    scene.add("theirs", "a", annotations=foreign_value(TOP))
    scene.add("new", "a")
    assert written(scene.decide()) == {"new": TOP - 1}


def test_a_value_of_a_pod_that_is_not_ready_counts_as_used() -> None:
    scene = Scene()
    scene.add("stumbling", "a", ready=False, annotations=our_value(TOP))
    scene.add("new", "a")
    assert written(scene.decide()) == {"new": TOP - 1}


def test_a_value_of_a_pod_that_is_leaving_is_free() -> None:
    scene = Scene()
    scene.add("leaving", "a", terminating=True, annotations=our_value(TOP))
    scene.add("new", "a")
    assert written(scene.decide()) == {"new": TOP}


@pytest.mark.parametrize(
    "sibling",
    [
        {"phase": "Pending", "node": ""},
        {"phase": "Pending"},
        {"phase": "Unknown"},
        {"ready": False},
        {"terminating": True},
        {"phase": "Failed"},
        {"node": "deleted-node"},
        {"node": "unlabelled"},
    ],
)
def test_a_sibling_that_cannot_be_given_a_value_stops_nobody_else(sibling: dict[str, Any]) -> None:
    scene = Scene()
    scene.add_node("unlabelled")
    scene.add("sibling", "a", **sibling)
    scene.add("one", "a")
    scene.add("other", "b")
    assert written(scene.decide()) == {"one": TOP, "other": TOP}


def test_the_whole_replica_set_is_decided_at_once_and_written_concurrently() -> None:
    scene = Scene()
    for number in range(30):
        scene.add(f"pod-{number}", "abc"[number % 3])
    decision = scene.decide()
    assert len(decision.actions) == 30
    assert not decision.in_order


def test_once_written_nothing_is_written_again() -> None:
    scene = Scene()
    for number in range(9):
        scene.add(f"pod-{number}", "abc"[number % 3])
    scene.carry_out(scene.decide())
    for hours in range(3):
        decision = scene.decide(after=timedelta(hours=hours))
        assert decision.actions == ()
        assert decision.requeue_after is None
        assert decision.reason.code == "InOrder"


def test_another_process_comes_to_the_same_answer() -> None:
    scene = Scene()
    for number in range(9):
        scene.add(f"pod-{number}", "abc"[number % 3])
    other = Scene()
    other.__dict__.update({**scene.__dict__, "controller": other.controller})
    assert other.decide() == scene.decide()


def test_a_patch_names_the_pod_by_uid_and_the_version_that_was_seen() -> None:
    """So that it never lands on a namesake, nor on a value that someone wrote meanwhile."""
    scene = Scene()
    pod = scene.add("one", "a")
    (action,) = scene.decide().actions
    assert isinstance(action, Patch)
    assert action.if_unchanged
    assert (action.target.uid, action.target.resource_version) == (pod.uid, pod.metadata.resource_version)


def test_within_a_zone_kubernetes_own_preferences_stand() -> None:
    scene = Scene()
    scene.add("young", "a", ready_for=timedelta(minutes=1))
    scene.add("old", "a", ready_for=timedelta(days=1))
    assert written(scene.decide()) == {"old": TOP, "young": TOP - 1}


def test_during_a_rollout_each_replica_set_counts_for_itself() -> None:
    scene = Scene()
    scene.add_replica_set("web-2")
    for number, of in enumerate(("web-1", "web-1", "web-2", "web-2")):
        scene.add(f"pod-{number}", "a", of=of)
    costs = written(scene.decide())
    assert {costs["pod-0"], costs["pod-1"]} == {costs["pod-2"], costs["pod-3"]} == {TOP, TOP - 1}


def test_pods_of_a_namesake_that_was_deleted_are_not_ours() -> None:
    scene = Scene()
    scene.add("one", "a")
    old = scene.replica_sets["web-1"]
    scene.replica_sets["web-1"] = scene.add_replica_set("web-1")  # the same name, another UID
    assert old.uid != scene.replica_sets["web-1"].uid
    assert scene.decide().actions == ()


def test_the_ceiling_can_be_moved() -> None:
    scene = Scene(settings=DeletionCostSettings(ceiling=1000))
    scene.add("one", "a")
    scene.add("two", "a")
    assert set(written(scene.decide()).values()) == {1000, 999}


def test_below_zero_nothing_is_written() -> None:
    """A pod without a value counts as 0: with less, ours would go before pods that nobody has looked at yet."""
    scene = Scene(settings=DeletionCostSettings(ceiling=1))
    for name in ("one", "two", "three", "four"):
        scene.add(name, "a")
    assert sorted(written(scene.decide()).values()) == [0, 0, 0, 1]
    scene.carry_out(scene.decide())
    assert scene.decide().actions == ()
