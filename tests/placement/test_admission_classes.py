"""Which class a new pod gets, and that the answers of a burst add up to the target while the view shows none of it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.controllers.placement.admission.classify import ClassAssigned, LiveReadKind, NotAssigned
from plimsoll.controllers.placement.annotations import PlacementReason
from plimsoll.controllers.placement.spec import ENABLED
from plimsoll.controllers.placement.target import Share, class_at, target
from plimsoll.kube.types.resources import DEPLOYMENTS, NODES, PODS
from tests import build
from tests.placement.admission_scene import ON_DEMAND, SPOT, SPOT_LABEL, Scene, asking, review, workload


def test_the_minimum_first_then_on_demand_before_spot():
    deployment, replica_set = workload(10, "50%", "2")
    scene = Scene(deployment, replica_set)
    given_ = [scene.admit(replica_set).assignment for _ in range(10)]
    assert [(m.capacity_class, m.why) for m in given_] == [
        *[(ON_DEMAND, PlacementReason.MINIMUM)] * 2,
        *[(ON_DEMAND, PlacementReason.SHARE)] * 3,
        *[(SPOT, PlacementReason.SHARE)] * 5,
    ]


@given(
    replicas=st.integers(1, 60),
    percentage=st.integers(0, 100),
    minimum=st.integers(0, 60),
    appearing=st.randoms(use_true_random=False),
)
def test_a_burst_is_exact_however_far_the_view_lags(replicas, percentage, minimum, appearing):
    minimum = min(minimum, replicas)
    deployment, replica_set = workload(replicas, f"{percentage}%", str(minimum))
    scene = Scene(deployment, replica_set)
    waiting: list[ClassAssigned] = []
    classes: Counter[object] = Counter()
    for _ in range(replicas):
        answer = scene.admit(replica_set)
        classes[answer.assignment.capacity_class] += 1
        waiting.append(answer)
        while waiting and appearing.random() < 0.5:
            scene.appear(replica_set, waiting.pop(appearing.randrange(len(waiting))))
    wanted = target(replicas, Share(minimum, percentage))
    assert (classes[SPOT], classes[ON_DEMAND]) == (wanted.spot, wanted.on_demand)


def test_pods_that_run_count_by_their_node_and_not_by_their_mark():
    deployment, replica_set = workload(4, "50%")
    spot = build.node("s", labels=SPOT_LABEL)
    on_spot = [build.pod(owner=replica_set, node="s") for _ in range(2)]
    scene = Scene(deployment, replica_set, *on_spot, nodes=(spot, build.node("o")))
    assert [scene.admit(replica_set).assignment.capacity_class for _ in range(2)] == [ON_DEMAND, ON_DEMAND]


def test_counts_follow_a_node_that_becomes_known_after_its_pods():
    deployment, replica_set = workload(2, "50%")
    scene = Scene(deployment, replica_set, build.pod(owner=replica_set, node="s"))
    assert scene.would_get(replica_set) is SPOT
    scene.view[NODES].put(build.node("s", labels=SPOT_LABEL))
    assert scene.admit(replica_set).assignment.capacity_class is ON_DEMAND


def test_counts_follow_pods_that_end_leave_and_are_adopted():
    deployment, replica_set = workload(3, "34%")  # one of three on spot
    other = build.replica_set("other-1")
    bare = build.pod("bare", node="o")
    scene = Scene(deployment, replica_set, bare, nodes=(build.node("o"),))
    adopted = build.pod("bare", owner=replica_set, node="o", uid=bare.uid)
    scene.view[PODS].put(adopted)
    scene.view[PODS].put(build.pod("second", owner=replica_set, node="o"))
    assert scene.would_get(replica_set) is SPOT
    scene.view[PODS].put(build.pod("second", owner=replica_set, node="o", phase="Failed"))
    assert scene.would_get(replica_set) is ON_DEMAND
    scene.view[PODS].put(build.pod("third", owner=replica_set, node="o"))
    assert scene.would_get(replica_set) is SPOT
    scene.view[PODS].put(build.pod("third", owner=replica_set, node="o", terminating=True))
    assert scene.would_get(replica_set) is ON_DEMAND
    scene.view[PODS].put(build.pod("fourth", owner=replica_set, node="o"))
    scene.view[PODS].remove("default", "bare")
    assert scene.would_get(replica_set) is ON_DEMAND
    scene.view[PODS].put(build.pod("bare", owner=other, node="o"))
    assert scene.would_get(replica_set) is ON_DEMAND


def test_each_replica_set_counts_for_itself_against_the_whole_workload():
    deployment, old = workload(4, "50%")
    new = build.replica_set("web-2", replicas=4, owner=deployment)
    running = [build.pod(owner=old, node="o") for _ in range(4)]
    scene = Scene(deployment, old, new, *running, nodes=(build.node("o"),))
    classes = [scene.admit(new).assignment.capacity_class for _ in range(4)]
    assert classes == [SPOT, SPOT, ON_DEMAND, ON_DEMAND], "four old pods are on-demand: more would double them"


@pytest.mark.parametrize("ordinal", range(12))
def test_a_stateful_set_goes_by_ordinal_at_every_size(ordinal):
    stateful_set = build.stateful_set(replicas=3, annotations=asking("60%", "2"))
    scene = Scene(stateful_set)
    answer = scene.ask(review(stateful_set, name=f"db-{ordinal}"))
    assert isinstance(answer, ClassAssigned)
    assert answer.assignment.capacity_class is class_at(ordinal, Share(2, 60))
    assert answer.assignment.why is PlacementReason.ORDINAL


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (review(None), "a bare pod"),
        (review(build.deployment("odd")), "an owner of another kind"),
        (review(build.replica_set(), operation="UPDATE"), "adoption is an update"),
        (review(build.replica_set(), annotations={"kubernetes.io/config.mirror": "x"}), "a mirror pod"),
        (replace(review(build.replica_set()), sub_resource="binding"), "no pod is created"),
    ],
)
def test_what_is_no_replica_is_left_alone(request_, why):
    assert Scene().ask(request_) == NotAssigned("NoReplica"), why


def test_an_owner_that_is_not_the_controller_does_not_count():
    deployment, replica_set = workload()
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set.name, "uid": replica_set.uid}
    request = review(None, ownerReferences=[reference])
    assert Scene(deployment, replica_set).ask(request) == NotAssigned("NoReplica")


def test_an_owner_of_the_same_name_from_another_group_does_not_count():
    deployment, replica_set = workload()
    reference = {"apiVersion": "other.io/v1", "kind": "ReplicaSet", "name": replica_set.name, "uid": replica_set.uid}
    request = review(None, ownerReferences=[{**reference, "controller": True}])
    assert Scene(deployment, replica_set).ask(request) == NotAssigned("NoReplica")


@pytest.mark.parametrize(
    ("annotations", "code"),
    [
        ({}, "NotEnabled"),
        ({ENABLED: "true"}, "NothingAsked"),
        (asking("70"), "InvalidAnnotations"),
        (asking("70%", "11"), "MinOnDemandExceedsReplicas"),
    ],
)
def test_workloads_that_are_not_managed_are_left_alone(annotations, code):
    deployment = build.deployment(replicas=10, annotations=annotations)
    replica_set = build.replica_set(replicas=10, owner=deployment)
    assert Scene(deployment, replica_set).ask(review(replica_set)) == NotAssigned(code)


def test_a_verdict_follows_the_annotations():
    deployment, replica_set = workload()
    scene = Scene(deployment, replica_set)
    scene.admit(replica_set)
    off = build.deployment(replicas=10, uid=deployment.uid, annotations={ENABLED: "false"})
    scene.view[DEPLOYMENTS].put(off)
    assert scene.ask(review(replica_set)) == NotAssigned("NotEnabled")


def test_a_replica_set_without_a_deployment_is_left_alone_without_a_look():
    lonely = build.replica_set()
    assert Scene(lonely).ask(review(lonely)) == NotAssigned("NoWorkload")


def test_a_pod_for_which_another_webhook_chose_keeps_that_choice():
    deployment, replica_set = workload()
    chosen = review(replica_set, spec={"nodeSelector": SPOT_LABEL})
    assert Scene(deployment, replica_set).ask(chosen) == NotAssigned("ClassChosen")


def test_namespaces_that_are_not_watched_are_left_alone():
    deployment, replica_set = workload()
    scene = Scene(deployment, replica_set)
    scene.admission._watch_namespaces = frozenset({"shop"})
    assert scene.ask(review(replica_set)) == NotAssigned("NamespaceNotWatched")


def test_a_view_that_is_not_live_marks_its_answers():
    deployment, replica_set = workload()
    scene = Scene(deployment, replica_set)
    scene.view[PODS].synced = False
    assert scene.admit(replica_set).assignment.why is PlacementReason.APPROXIMATE
    assert scene.admit(replica_set, looked=tuple(LiveReadKind)).assignment.why is not PlacementReason.APPROXIMATE
