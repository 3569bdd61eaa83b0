"""Which workloads are managed, the problems reported to their authors, metrics, and which keys a change enqueues."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spec import ENABLED, MIN_ON_DEMAND, SPOT_PERCENTAGE
from plimsoll.controllers.placement.target import Target
from plimsoll.kube.types.resources import BUDGETS, DEPLOYMENTS, NAMESPACES, NODES, PODS, REPLICASETS, Key
from tests import build
from tests.placement.scene import SPOT, SPOT_LABEL, Scene, codes, evicted, namespace

KEY = Key("Deployment", "default", "web")


@pytest.mark.parametrize("value", ["TRUE", "yes", ""])
def test_invalid_input_is_told_to_its_author_and_nothing_else_happens(value: str):
    scene = Scene(annotations={ENABLED: value})
    scene.running(0, 10)
    decision = scene.decide()
    (problem,) = decision.problems
    assert (problem.code, decision.actions, decision.target) == ("InvalidAnnotations", (), None)
    assert "Deployment default/web" in problem.message and ENABLED in problem.message
    (count,) = problem.counts
    assert count.name == "spotalis_reconciliation_errors_total"
    assert count.labels == {
        "namespace": "default", "workload": "web", "workload_type": "deployment", "error_type": "InvalidAnnotations",
    }  # fmt: skip


def test_a_minimum_above_the_count_is_left_alone_or_made_all_on_demand():
    scene = Scene(replicas=3, minimum="5")
    scene.running(1, 2)
    decision = scene.decide()
    assert [problem.code for problem in decision.problems] == ["MinOnDemandExceedsReplicas"]
    assert decision.actions == ()
    scene = Scene(replicas=3, minimum="5", settings=PlacementSettings(when_min_exceeds_replicas="on-demand"))
    scene.running(1, 2)
    decision = scene.decide()
    assert (decision.target, decision.problems, len(decision.actions)) == (Target(0, 3), (), 1)


def scaled(scene: Scene, replicas: int, **annotations: str) -> Scene:
    """The same workload, decided by the same controller, with another replica count."""
    workload = scene.workload
    meta = replace(workload.metadata, annotations={**workload.annotations, **annotations})
    scene.workload = replace(workload, metadata=meta, spec=replace(workload.spec, replicas=replicas))
    scene.objects[DEPLOYMENTS] = [scene.workload]
    return scene


def test_a_minimum_above_the_count_is_reported_once_and_not_whenever_an_autoscaler_comes_back_to_it():
    scene = Scene(replicas=6, minimum="3", spot="50%")
    reported = []
    for replicas in (6, 2, 2, 6, 2, 2, 6, 1, 6, 2):
        decision = scaled(scene, replicas).decide()
        reported.append(len(decision.problems))
        assert (decision.target is None) is (replicas < 3)
    #                  6  2  2  6  2  2  6  1  6  2
    assert reported == [0, 1, 1, 0, 0, 0, 0, 1, 0, 0]
    assert len(scaled(scene, 2, **{MIN_ON_DEMAND: "4"}).decide().problems) == 1, "a new minimum is a new error"


# ── pods that were left behind ───────────────────────────────────────────────────────────────────────────────────────────


OURS = {"plimsoll.dev/placed-by": "plimsoll-system"}


@pytest.mark.parametrize(
    "annotations",
    [{ENABLED: "false"}, {ENABLED: "perhaps"}, {SPOT_PERCENTAGE: "50"}, {MIN_ON_DEMAND: "11"}],
    ids=["disabled", "invalid", "no percent sign", "minimum too high"],
)
def test_pending_pods_are_released_when_their_workload_is_no_longer_managed(annotations: dict[str, str]):
    scene = Scene(replicas=10, annotations=annotations)
    scene.running(0, 8)
    scene.waiting("stranded", since=scene.now, annotations=OURS)
    scene.waiting("of-another", since=scene.now, annotations={"plimsoll.dev/placed-by": "elsewhere"})
    first = scene.decide()
    assert (first.actions, first.requeue_after) == ((), timedelta(minutes=2))
    decision = scene.decide(after=timedelta(minutes=2))
    assert (evicted(decision), decision.reason.code) == (["stranded"], "ClassReleased")


def test_a_pod_that_has_a_node_or_no_class_of_ours_is_left_alone():
    scene = Scene(replicas=2, annotations={ENABLED: "false"})
    scene.pod("runs", node="spot-1", mark=SPOT, annotations=OURS, ready=False)
    scene.pod("plain", node="", phase="Pending")
    assert scene.decide(after=timedelta(hours=1)).actions == ()


def test_a_pending_pod_with_a_class_concerns_its_workload_though_nothing_is_said_there_any_more():
    scene = Scene(spot=None, minimum=None, annotations={ENABLED: None})  # type: ignore[dict-item]
    pod = scene.waiting("stranded", since=scene.now, annotations=OURS)
    assert list(scene.controller.keys(PODS, pod, scene.view())) == [KEY]
    plain = scene.pod("plain", node="", phase="Pending")
    assert list(scene.controller.keys(PODS, plain, scene.view())) == []


def test_no_replicas_at_all_are_no_error():
    decision = Scene(replicas=0, minimum="5").decide()
    assert (decision.problems, decision.target) == ((), Target(0, 0))


def test_a_template_that_chooses_its_class_keeps_its_choice():
    scene = Scene(template={"nodeSelector": SPOT_LABEL})
    scene.running(0, 10)
    decision = scene.decide()
    assert [problem.code for problem in decision.problems] == ["PlacementConflict"]
    assert decision.actions == ()


def test_enabled_with_nothing_asked_changes_nothing():
    scene = Scene(spot=None, minimum=None)
    scene.running(5, 5)
    decision = scene.decide()
    assert (decision.reason.code, decision.actions, decision.problems) == ("NothingAsked", (), ())


def test_a_workload_that_is_gone_is_forgotten():
    scene = Scene()
    assert scene.controller.decide(Key("Deployment", "default", "other"), scene.view(), scene.now).forget


def test_the_old_label_opts_in_and_the_annotation_wins_over_it():
    scene = Scene(annotations={ENABLED: None}, labels={ENABLED: "true"})  # type: ignore[dict-item]
    assert scene.decide().target == Target(6, 4)
    scene = Scene(annotations={ENABLED: "false"}, labels={ENABLED: "true"})
    assert scene.decide().reason.code == "NotEnabled"


def test_what_is_measured():
    scene = Scene()
    scene.running(3, 7)
    decision = scene.decide()
    common = {"namespace": "default", "workload": "web", "workload_type": "deployment"}
    values = {(m.name, m.labels["replica_type"]): m.value for m in decision.gauges}
    assert values == {
        ("spotalis_workload_replicas", "spot"): 3,
        ("spotalis_workload_replicas", "on-demand"): 7,
        ("plimsoll_placement_target_replicas", "spot"): 6,
        ("plimsoll_placement_target_replicas", "on-demand"): 4,
    }
    assert all(common.items() <= dict(m.labels).items() for m in decision.gauges)
    (count,) = decision.counts
    assert count.name == "spotalis_reconciliations_total"
    assert count.labels == {**common, "action": "migrate-to-spot", "result": "success"}


def test_what_a_budget_blocks_is_counted_by_its_name():
    scene = Scene()
    scene.running(3, 7)
    scene.add(build.budget("careful", allowed=0))
    decision = scene.decide()
    assert codes(decision) == ["NotEnoughPdb"]
    assert [(count.name, count.labels.get("pdb_name"), count.labels.get("result")) for count in decision.counts] == [
        ("spotalis_reconciliations_total", None, "blocked"),
        ("spotalis_rebalancing_blocked_by_pdb_total", "careful", None),
    ]


def test_whom_a_change_concerns():
    scene = Scene()
    scene.running(1, 1)
    scene.add(
        namespace({}),
        build.budget(selector={"matchLabels": {"app": "web"}}),
        build.budget("other", selector={"matchLabels": {"app": "x"}}),
    )
    scene.disrupted(scene.now)
    view = scene.view()

    def concerned(kind, name: str, where: str = "default") -> list[Key]:
        changed = view[kind].get(where, name)
        assert changed is not None
        return list(scene.controller.keys(kind, changed, view))

    assert concerned(PODS, "spot-1-0") == [KEY]
    assert concerned(REPLICASETS, "web-1") == [KEY]
    assert concerned(NODES, "spot-1", "") == [KEY]
    assert concerned(NAMESPACES, "default", "") == [KEY]
    assert concerned(BUDGETS, "pdb") == [KEY]
    assert concerned(BUDGETS, "other") == []
    (shard,) = view[scene.settings.memory]
    assert list(scene.controller.keys(scene.settings.memory, shard, view)) == [KEY]
    stranger = build.pod("stranger", node="spot-1")
    assert list(scene.controller.keys(PODS, stranger, view)) == []


def test_a_workload_that_says_nothing_is_never_looked_at():
    scene = Scene(annotations={ENABLED: None, SPOT_PERCENTAGE: None, MIN_ON_DEMAND: None})  # type: ignore[dict-item]
    scene.running(1, 1)
    view = scene.view()
    pod = next(iter(view[PODS]))
    assert list(scene.controller.keys(PODS, pod, view)) == []


@pytest.mark.parametrize("excluded", ["kube-system", "plimsoll-system"])
def test_namespaces_whose_pods_the_api_server_does_not_ask_about_are_left_alone(excluded: str):
    web = build.deployment("web", namespace=excluded, replicas=3, annotations={ENABLED: "true", SPOT_PERCENTAGE: "50%"})
    scene = Scene()
    scene.objects[DEPLOYMENTS] = [web]
    decision = scene.controller.decide(Key("Deployment", excluded, "web"), scene.view(), scene.now)
    assert (decision.reason.code, decision.target, decision.actions) == ("NamespaceExcluded", None, ())


def test_a_label_of_a_namespace_concerns_its_workloads():
    scene = Scene()
    changed = namespace({})
    assert list(scene.controller.keys(NAMESPACES, changed, scene.view())) == [KEY]
