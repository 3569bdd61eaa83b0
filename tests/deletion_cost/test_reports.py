"""Problems, notes, measures and the order of deletion: what people see of a decision."""

from __future__ import annotations

from msgspec.structs import replace

from plimsoll.controllers.deletion_cost.order import DeletionEntry
from tests.deletion_cost.scene import TOP, Scene, foreign_value, our_value, written


def measures(scene: Scene) -> dict[str, float]:
    return {measure.name.removeprefix("plimsoll_deletion_cost_"): measure.value for measure in scene.decide().gauges}


def test_an_unlabelled_node_is_named_with_the_label() -> None:
    scene = Scene()
    scene.add_node("bare")
    scene.add("one", "a")
    scene.add("stranded", node="bare")
    decision = scene.decide()
    assert set(written(decision)) == {"one"}
    (problem,) = decision.problems
    assert problem.code == "NodeUnlabelled"
    assert "node bare has no label topology.kubernetes.io/zone" in problem.message
    assert problem.regarding.uid == scene.deployment.uid


def test_an_empty_label_is_no_zone() -> None:
    scene = Scene()
    scene.add_node("bare", labels={"topology.kubernetes.io/zone": ""})
    scene.add("stranded", node="bare")
    decision = scene.decide()
    assert decision.actions == ()
    assert decision.problems


def test_a_pod_that_no_value_could_keep_makes_no_node_a_problem() -> None:
    scene = Scene()
    scene.add_node("bare")
    scene.add("starting", node="bare", ready=False)
    assert scene.decide().problems == ()


def test_an_unlabelled_node_is_told_once_whatever_comes_and_goes() -> None:
    scene = Scene()
    scene.add_node("bare")
    scene.add("stranded", node="bare")
    before = scene.decide().problems
    scene.remove("stranded")
    scene.add("another", node="bare")
    scene.add_node("also-bare")
    scene.add("third", node="also-bare")
    assert set(before) < set(scene.decide().problems)


def test_a_cluster_without_the_label_does_not_drown_anyone() -> None:
    scene = Scene()
    for number in range(200):
        scene.add_node(f"bare-{number}")
        scene.add(f"stranded-{number}", node=f"bare-{number}")
    problems = scene.decide().problems
    assert len(problems) == 10
    assert all(len(problem.message) < 1024 for problem in problems), "what an event holds"


def test_a_deleted_node_is_no_ones_fault() -> None:
    scene = Scene()
    scene.add("orphan", node="gone")
    assert scene.decide().problems == ()


def test_a_value_that_is_no_int32_is_named() -> None:
    scene = Scene()
    scene.add("odd", "a", annotations=foreign_value("9e9"))
    (problem,) = scene.decide().problems
    assert problem.code == "InvalidDeletionCost"
    assert problem.regarding.uid == scene.pods["odd"].uid
    assert 'default/odd: controller.kubernetes.io/pod-deletion-cost is "9e9"' in problem.message


def test_what_was_told_is_not_told_again_when_a_status_changes() -> None:
    scene = Scene()
    scene.add_node("bare")
    scene.add("stranded", node="bare")
    scene.add("odd", "a", annotations=foreign_value("9e9"))
    before = scene.decide().problems
    for name, pod in scene.pods.items():
        scene.pods[name] = replace(pod, metadata=replace(pod.metadata, resource_version="9999"))
    scene.deployment = replace(scene.deployment, metadata=replace(scene.deployment.metadata, resource_version="9999"))
    assert len(before) == 2
    assert scene.decide().problems == before


def test_rewrites_are_told_on_the_deployment() -> None:
    scene = Scene()
    scene.add_with_values(a=[TOP, TOP - 3], b=[TOP, TOP - 1, TOP - 2])
    (note,) = scene.decide().events
    assert note.reason == "DeletionCostRewritten"
    assert "a1 moved from 1st to 3rd in the deletion order: zone a has 2 of 5 replicas" in note.message
    assert note.regarding.uid == scene.deployment.uid


def test_first_values_are_no_event_each() -> None:
    scene = Scene()
    scene.add("one", "a")
    assert scene.decide().events == ()


def test_covered_pods_and_imbalance_are_measured() -> None:
    scene = Scene()
    scene.add_with_values(a=[TOP, TOP - 1], b=[TOP])
    scene.add("theirs", "b", annotations=foreign_value(TOP - 1))
    assert measures(scene) == {"covered_pods": 3, "imbalance": 0}
    assert {tuple(measure.labels.items()) for measure in scene.decide().gauges} == {
        (("namespace", "default"), ("workload", "web"))
    }


def test_imbalance_shows_what_someone_elses_values_do() -> None:
    scene = Scene()
    for number in range(3):
        scene.add(f"a{number}", "a", annotations=foreign_value(TOP))
        scene.add(f"b{number}", "b", annotations=foreign_value(number))
    assert measures(scene)["imbalance"] == 2, "3/3 becomes 3/0 where 2/1 could be had"


def test_pods_that_go_first_in_any_case_are_no_imbalance() -> None:
    """The one of zone b that is not ready leaves first, and makes 3/1 of 3/2: nobody could have it otherwise."""
    scene = Scene()
    scene.add_with_values(a=[TOP, TOP - 1, TOP - 2], b=[TOP])
    scene.add("broken", "b", ready=False)
    assert measures(scene)["imbalance"] == 0


def test_the_order_of_deletion_is_told_with_zone_and_node() -> None:
    scene = Scene()
    scene.add("last", "a", annotations=our_value(TOP))
    scene.add("new", "a")
    scene.add("theirs", "b", annotations=foreign_value(5))
    scene.add("broken", "b", ready=False, annotations=our_value(TOP))
    scene.add("unknown", "b", phase="Unknown")
    scene.add("pending", phase="Pending", node="")
    (order,) = scene.decide().orders
    assert order.replica_set == "web-1"
    assert order.departures == (
        DeletionEntry("pending", "", "", None, "nobody", "no node"),
        DeletionEntry("unknown", "node-b", "b", None, "nobody", "not running"),
        DeletionEntry("broken", "node-b", "b", TOP, "ours", "not ready"),
        DeletionEntry("theirs", "node-b", "b", 5, "foreign", "cost"),
        DeletionEntry("new", "node-a", "a", TOP - 1, "ours", "cost", rewritten=True),
        DeletionEntry("last", "node-a", "a", TOP, "ours", "cost"),
    )


def test_each_replica_set_has_an_order_of_its_own() -> None:
    scene = Scene()
    scene.add_replica_set("web-2")
    scene.add("old", "a")
    scene.add("new", "a", of="web-2")
    assert {order.replica_set: [d.pod for d in order.departures] for order in scene.decide().orders} == {
        "web-1": ["old"],
        "web-2": ["new"],
    }
