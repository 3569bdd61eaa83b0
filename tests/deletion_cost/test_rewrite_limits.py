"""Rewrites wait for pods that are on their way, and come no faster than allowed; first values never wait."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from plimsoll.controllers.deletion_cost.spec import DeletionCostSettings
from plimsoll.controllers.deletion_cost.writes import SETTLING
from plimsoll.kube.types.apps import WorkloadStatus
from plimsoll.kube.types.meta import Condition
from tests import build
from tests.deletion_cost.scene import TOP, Scene, our_value, written

SECOND = timedelta(seconds=1)


def uneven(**settings: int) -> Scene:
    """Three pods of zone a stand too low."""
    scene = Scene(settings=DeletionCostSettings(**settings) if settings else None)  # type: ignore[arg-type]
    scene.add_with_values(
        a=[TOP - 10, TOP - 11, TOP - 12], b=[TOP, TOP - 1, TOP - 2, TOP - 3], c=[TOP, TOP - 1, TOP - 2, TOP - 3]
    )
    return scene


def test_all_at_once_where_the_limit_allows() -> None:
    assert len(uneven().decide().actions) == 3


def test_no_more_than_the_limit_and_the_rest_a_minute_later() -> None:
    scene = uneven(max_rewrites_per_minute=2)
    first = scene.decide()
    assert len(first.actions) == 2
    scene.carry_out(first)
    waiting = scene.decide(after=20 * SECOND)
    assert waiting.actions == ()
    assert [blocker.code for blocker in waiting.blockers] == ["RewriteLimit"]
    assert waiting.requeue_after == 40 * SECOND
    last = scene.decide(after=40 * SECOND)
    assert len(last.actions) == 1
    scene.carry_out(last)
    assert scene.decide().actions == ()


def test_rewriting_in_parts_takes_no_more_than_all_at_once() -> None:
    scene = uneven(max_rewrites_per_minute=1)
    total = 0
    for _ in range(6):
        decision = scene.decide(after=timedelta(minutes=1))
        total += len(decision.actions)
        scene.carry_out(decision)
    assert total == 3


def test_the_limit_outlives_a_change_of_leader() -> None:
    """It is counted from what is written on the pods."""
    scene = uneven(max_rewrites_per_minute=2)
    scene.carry_out(scene.decide())
    successor = Scene(settings=DeletionCostSettings(max_rewrites_per_minute=2))
    successor.__dict__.update({**scene.__dict__, "controller": successor.controller})
    assert successor.decide(after=20 * SECOND).actions == ()


def test_a_clock_that_was_set_back_does_not_stop_rewrites_for_long() -> None:
    scene = uneven(max_rewrites_per_minute=1)
    later = scene.now + timedelta(hours=1)
    scene.add("d0", "d", annotations=our_value(TOP, rewritten=later))
    assert len(scene.decide().actions) == 1


def test_a_limit_of_zero_closes_no_holes() -> None:
    decision = uneven(max_rewrites_per_minute=0).decide()
    assert decision.actions == ()
    assert decision.requeue_after is None
    assert decision.blockers


def test_first_values_do_not_count_and_do_not_wait() -> None:
    scene = Scene(settings=DeletionCostSettings(max_rewrites_per_minute=0))
    for number in range(100):
        scene.add(f"pod-{number}", "abc"[number % 3])
    assert len(scene.decide().actions) == 100


def test_a_replica_that_is_missing_is_waited_for() -> None:
    scene = uneven()
    scene.want("web-1", len(scene.pods) + 1)
    decision = scene.decide()
    assert decision.actions == ()
    assert [blocker.code for blocker in decision.blockers] == ["ReplicasChanging"]


def test_a_replica_that_cannot_be_created_is_not_waited_for() -> None:
    scene = uneven()
    scene.want("web-1", len(scene.pods) + 1)
    status = WorkloadStatus(conditions=(Condition("ReplicaFailure", "True", reason="FailedCreate"),))
    scene.replica_sets["web-1"] = replace(scene.replica_sets["web-1"], status=status)
    assert len(scene.decide().actions) == 3


def test_a_pod_that_was_just_created_is_waited_for_but_not_for_ever() -> None:
    scene = uneven()
    created = (build.START - 10 * SECOND).isoformat()
    scene.add("starting", "a", phase="Pending", creationTimestamp=created)
    decision = scene.decide()
    assert decision.actions == ()
    assert decision.requeue_after == SETTLING - 10 * SECOND
    assert len(scene.decide(after=SETTLING).actions) == 3


def test_of_several_that_are_starting_the_last_one_is_waited_for() -> None:
    scene = uneven()
    for name, age in (("younger", 5), ("older", 20)):
        scene.add(name, "a", phase="Pending", creationTimestamp=(build.START - age * SECOND).isoformat())
    assert scene.decide().requeue_after == SETTLING - 5 * SECOND


def test_a_pod_that_is_not_ready_for_a_moment_leaves_values_as_they_are() -> None:
    scene = Scene()
    scene.add_with_values(a=[TOP, TOP - 2], b=[TOP, TOP - 1, TOP - 2])
    scene.add("a-stumbles", "a", ready=False, ready_for=5 * SECOND, annotations=our_value(TOP - 1))
    assert scene.decide().actions == ()
    assert len(scene.decide(after=SETTLING).actions) == 1


def test_what_someone_takes_away_is_restored_at_the_pace_of_rewrites() -> None:
    """Two controllers that disagree must not write for ever as fast as they can."""
    scene = Scene(settings=DeletionCostSettings(max_rewrites_per_minute=1))
    scene.add("one", "a")
    scene.carry_out(scene.decide())
    writes = 0
    for _ in range(60):
        scene.annotate_pod("one", cost=None)
        decision = scene.decide(after=SECOND)
        writes += len(decision.actions)
        scene.carry_out(decision)
    assert writes == 1


def test_new_settings_do_not_wait_even_where_someone_took_the_old_value_away() -> None:
    scene = Scene(settings=DeletionCostSettings(max_rewrites_per_minute=0))
    scene.add("one", "a", annotations=our_value(TOP, spread_by="rack"))
    scene.annotate_pod("one", cost=None)
    assert written(scene.decide()) == {"one": TOP}


def test_the_limit_is_the_workloads_whatever_replica_sets_it_has() -> None:
    scene = uneven(max_rewrites_per_minute=4)
    scene.add_replica_set("web-2")
    for zone, depths in (("a", [10, 11, 12]), ("b", [0, 1, 2, 3]), ("c", [0, 1, 2, 3])):
        for depth in depths:
            scene.add(f"new-{zone}{depth}", zone, of="web-2", annotations=our_value(TOP - depth))
    decision = scene.decide()
    assert len(decision.actions) == 4, "three in one of them, and one in the other"
    assert [blocker.code for blocker in decision.blockers] == ["RewriteLimit"]


def test_a_rollout_in_another_replica_set_holds_nothing_up() -> None:
    scene = uneven()
    scene.add_replica_set("web-2")
    scene.want("web-2", 5)
    scene.add("new", "a", of="web-2", phase="Pending")
    assert set(written(scene.decide())) == {"a0", "a1", "a2"}
