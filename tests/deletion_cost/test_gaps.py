"""When pods have come and gone so that a scale-down would be uneven, the fewest values are rewritten."""

from __future__ import annotations

from tests.deletion_cost.scene import TOP, Scene, foreign_value, written


def test_nothing_is_rewritten_while_a_scale_down_stays_even() -> None:
    scene = Scene()
    scene.add_with_values(a=[TOP, TOP - 1, TOP - 2], b=[TOP, TOP - 1], c=[TOP])
    assert scene.decide().actions == ()


def test_a_hole_that_does_no_harm_is_left() -> None:
    scene = Scene()
    scene.add_with_values(a=[TOP, TOP - 2], b=[TOP, TOP - 1])
    assert scene.decide().actions == ()


def test_a_hole_that_does_harm_costs_one_rewrite() -> None:
    scene = Scene()
    scene.add_with_values(a=[TOP, TOP - 3], b=[TOP, TOP - 1, TOP - 2])
    assert written(scene.decide()) == {"a1": TOP - 1}
    assert scene.settle() == 1


def test_the_history_that_broke_the_reference_implementation() -> None:
    """Nine pods as 3/3/3; one of zone c is lost and comes back in zone a: 4/3/2, and c holds a hole."""
    scene = Scene()
    scene.add_with_values(a=[TOP, TOP - 1, TOP - 2, TOP - 3], b=[TOP, TOP - 1, TOP - 2], c=[TOP - 1, TOP - 2])
    decision = scene.decide()
    assert len(decision.actions) == 1
    (order,) = decision.orders
    assert order.imbalance == 0
    zones = [departure.zone for departure in order.departures]
    assert sorted(zones[3:]) == ["a", "a", "b", "b", "c", "c"]
    assert sorted(zones[6:]) == ["a", "b", "c"]


def test_equal_values_in_different_zones_are_no_order_to_rely_on() -> None:
    """Now Kubernetes may happen to choose well; when ages have moved on, it may not."""
    scene = Scene()
    scene.add_with_values(a=[TOP, TOP - 2], b=[TOP, TOP - 1, TOP - 2])
    assert len(scene.decide().actions) == 1


def test_a_lone_zone_needs_no_order() -> None:
    scene = Scene()
    scene.add_with_values(a=[TOP, TOP - 7, TOP - 7, 3])
    assert scene.decide().actions == ()


def test_newcomers_are_served_before_holes_are_looked_at() -> None:
    scene = Scene()
    scene.add_with_values(a=[TOP, TOP - 3], b=[TOP, TOP - 1, TOP - 2])
    scene.add("new", "a")
    assert written(scene.decide()) == {"new": TOP - 1}
    assert scene.settle() == 1, "the newcomer has filled the hole"


def test_a_pod_that_is_not_ready_does_not_count() -> None:
    """Kubernetes deletes it first; what is then left must be even."""
    scene = Scene()
    scene.add_with_values(a=[TOP, TOP - 2], b=[TOP, TOP - 1, TOP - 2])
    scene.add("stumbling", "a", ready=False, annotations=scene.pods["b1"].annotations)
    decision = scene.decide()
    assert len(decision.actions) == 1
    assert decision.orders[0].departures[0].pod == "stumbling"
    assert decision.orders[0].imbalance == 0


def test_someone_elses_values_are_worked_around() -> None:
    scene = Scene()
    scene.add_with_values(a=[TOP, TOP - 1, TOP - 5], b=[TOP, TOP - 1, TOP - 2, TOP - 3, TOP - 4])
    scene.add("theirs", "a", annotations=foreign_value(TOP - 2))
    assert written(scene.decide()) == {"a2": TOP - 3}, "the place that theirs leaves, not theirs"
    scene.settle()
    assert scene.costs["theirs"] == TOP - 2


def test_a_pod_that_someone_wants_gone_first_goes_first() -> None:
    scene = Scene()
    scene.add_with_values(a=[TOP, TOP - 1], b=[TOP, TOP - 1])
    scene.add("unwanted", "b", annotations=foreign_value(-1000))
    decision = scene.decide()
    assert decision.actions == ()
    assert decision.orders[0].departures[0].pod == "unwanted"


def test_zones_may_be_many_and_small() -> None:
    scene = Scene()
    scene.add_with_values(
        **{f"rack{number}": [TOP, TOP - 1] for number in range(40)}, odd=[TOP, TOP - 2], full=[TOP, TOP - 1, TOP - 2]
    )
    assert written(scene.decide()) == {"odd1": TOP - 1}
