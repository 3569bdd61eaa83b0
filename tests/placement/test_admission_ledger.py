"""What becomes of an answer: the pod comes into view, is refused, was only asked about, or is asked about twice."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.controllers.placement.admission.classify import ClassAssigned, LiveReadKind, LiveReadNeeded
from plimsoll.controllers.placement.admission.pending_pods import KEPT_SECONDS, AdmissionLedger, AdmittedPodEntry
from plimsoll.controllers.placement.annotations import PlacementReason
from plimsoll.controllers.placement.target import Share, target
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import DEPLOYMENTS, PODS, REPLICASETS
from tests import build
from tests.placement.admission_scene import ON_DEMAND, SPOT, Scene, annotations_of, review, workload

LOOKED = tuple(LiveReadKind)


def test_a_dry_run_is_answered_and_leaves_no_trace():
    deployment, replica_set = workload(2, "50%")
    scene = Scene(deployment, replica_set)
    for _ in range(3):
        answer = scene.ask(review(replica_set, dry_run=True))
        assert isinstance(answer, ClassAssigned)
        assert answer.assignment.capacity_class is ON_DEMAND
    assert len(scene.admission.ledger) == 0
    assert [scene.admit(replica_set).assignment.capacity_class for _ in range(2)] == [ON_DEMAND, SPOT]
    before = len(scene.admission.ledger)
    scene.ask(review(replica_set, dry_run=True), looked=LOOKED)
    assert len(scene.admission.ledger) == before


def test_asked_again_about_the_same_pod_it_says_the_same_and_counts_it_once():
    deployment, replica_set = workload(2, "50%")
    scene = Scene(deployment, replica_set)
    first = scene.admit(replica_set)
    marked = review(replica_set, annotations=annotations_of(first))
    again = scene.ask(marked)
    assert isinstance(again, ClassAssigned)
    assert again.assignment == first.assignment
    assert len(scene.admission.ledger) == 1
    assert scene.admit(replica_set).assignment.capacity_class is SPOT


def test_a_token_that_is_nobodys_is_not_believed():
    deployment, replica_set = workload(2, "50%")
    scene = Scene(deployment, replica_set)
    copied = review(
        replica_set, annotations={"plimsoll.dev/placement-token": "t99", "plimsoll.dev/placement-class": "spot"}
    )
    answer = scene.ask(copied)
    assert isinstance(answer, ClassAssigned)
    assert answer.assignment.capacity_class is ON_DEMAND
    assert answer.assignment.token != "t99"


def test_a_pod_in_view_is_counted_there_and_not_twice():
    deployment, replica_set = workload(2, "50%")
    scene = Scene(deployment, replica_set)
    scene.appear(replica_set, scene.admit(replica_set))
    assert len(scene.admission.ledger) == 0
    assert scene.admit(replica_set).assignment.capacity_class is SPOT


def test_entries_whose_pod_never_comes_expire():
    deployment, replica_set = workload(2, "50%")
    scene = Scene(deployment, replica_set)
    scene.admit(replica_set)
    scene.now_seconds = KEPT_SECONDS - 1
    assert scene.would_get(replica_set) is SPOT
    scene.now_seconds = KEPT_SECONDS
    assert scene.would_get(replica_set) is ON_DEMAND
    assert scene.admission.ledger.expired == 1


def test_a_full_count_means_a_look_at_the_owners_and_then_at_the_pods():
    deployment, replica_set = workload(1, "0%")
    scene = Scene(deployment, replica_set)
    scene.admit(replica_set)
    first = scene.ask(review(replica_set))
    assert isinstance(first, LiveReadNeeded)
    assert first.what is LiveReadKind.OWNERS
    second = scene.ask(review(replica_set), looked=(LiveReadKind.OWNERS,))
    assert isinstance(second, LiveReadNeeded)
    assert (second.what, second.known) == (LiveReadKind.PODS, replica_set)


def test_a_workload_that_shrank_is_full_before_its_replica_set_has_heard_of_it():
    deployment, _ = workload(1, "0%")
    lagging = build.replica_set(replicas=5, owner=deployment)
    scene = Scene(deployment, lagging)
    scene.admit(lagging)
    assert isinstance(scene.ask(review(lagging)), LiveReadNeeded)


def test_a_count_that_was_raised_just_now_is_read_live_and_needs_no_list_of_pods():
    deployment, replica_set = workload(2, "50%")
    scene = Scene(deployment, replica_set)
    [scene.admit(replica_set) for _ in range(2)]
    assert isinstance(scene.ask(review(replica_set)), LiveReadNeeded)
    raised = build.deployment(replicas=4, uid=deployment.uid, annotations=deployment.annotations)
    grown = build.replica_set(replicas=4, uid=replica_set.uid, owner=deployment)
    scene.admission.record_owner(raised, 0)
    scene.admission.record_owner(grown, 0)
    classes = [
        scene.admit(replica_set, looked=(LiveReadKind.OWNERS,)).assignment.capacity_class,
        scene.admit(replica_set).assignment.capacity_class,
    ]
    assert classes == [ON_DEMAND, SPOT]
    later = build.deployment(replicas=2, uid=deployment.uid, annotations=deployment.annotations)
    scene.view[DEPLOYMENTS].put(later)  # newer than what was read
    assert isinstance(scene.ask(review(replica_set)), LiveReadNeeded)


def test_an_owner_that_the_view_lacks_is_read_live():
    deployment, replica_set = workload(2, "50%")
    scene = Scene()
    answer = scene.ask(review(replica_set))
    assert isinstance(answer, LiveReadNeeded)
    assert (answer.what, answer.owner.uid, answer.known) == (LiveReadKind.OWNERS, replica_set.uid, None)
    scene.admission.record_owner(replica_set, 0)
    scene.admission.record_owner(deployment, 0)
    assert scene.admit(replica_set).assignment.capacity_class is ON_DEMAND
    scene.now_seconds = 1000  # read long ago, and the view has never shown it: it is gone
    scene.admission.record_owner(build.replica_set("other"), 1000)
    assert isinstance(scene.ask(review(replica_set)), LiveReadNeeded)


def test_pods_read_live_count_until_the_view_has_come_as_far():
    deployment, replica_set = workload(2, "50%")
    leaving = build.pod(
        "leaving", owner=replica_set, node="", phase="Pending", annotations={"plimsoll.dev/placement-class": "spot"}
    )
    staying = build.pod("staying", owner=replica_set, node="", phase="Pending")
    scene = Scene(deployment, replica_set, leaving, staying)
    scene.view[PODS].resource_version = "100"
    assert isinstance(scene.ask(review(replica_set)), LiveReadNeeded)
    scene.admission.record_pods(replica_set.uid, [staying], "200", 0)
    answer = scene.admit(replica_set, looked=LOOKED)
    assert answer.assignment.capacity_class is SPOT
    assert len(scene.admission.ledger) == 1
    scene.view[PODS].remove("default", "leaving")
    scene.view[PODS].resource_version = "200"
    scene.appear(replica_set, answer)
    assert isinstance(scene.ask(review(replica_set)), LiveReadNeeded)


def test_creations_that_were_refused_make_room_oldest_first():
    deployment, replica_set = workload(4, "50%")
    scene = Scene(deployment, replica_set)
    answers = [scene.admit(replica_set) for _ in range(4)]  # on-demand, on-demand, spot, spot
    created = [scene.appear(replica_set, answers[1]), scene.appear(replica_set, answers[3])]
    scene.admission.record_pods(replica_set.uid, created, "5", 0)
    classes = [scene.admit(replica_set, looked=LOOKED).assignment.capacity_class for _ in range(2)]
    assert classes == [ON_DEMAND, SPOT]
    assert scene.admission.ledger.dropped == 2


def test_nothing_is_dropped_on_what_could_not_be_read():
    deployment, replica_set = workload(1, "0%")
    scene = Scene(deployment, replica_set)
    scene.admit(replica_set)
    answer = scene.admit(replica_set, looked=LOOKED, approximate=True)
    assert answer.assignment.why is PlacementReason.APPROXIMATE
    assert scene.admission.ledger.dropped == 0


@settings(max_examples=60, deadline=None)
@given(
    replicas=st.integers(1, 40),
    percentage=st.integers(0, 100),
    minimum=st.integers(0, 10),
    seed=st.integers(0, 2**32),
)
def test_refusals_in_any_pattern_end_exactly_at_the_target(replicas, percentage, minimum, seed):
    """A ReplicaSet as the real one: batches of 1, 2, 4, …; a refusal ends the round; the next starts when all is known."""
    randoms = random.Random(seed)
    minimum = min(minimum, replicas)
    deployment, replica_set = workload(replicas, f"{percentage}%", str(minimum))
    scene = Scene(deployment, replica_set)
    scene.view[PODS].resource_version = "0"
    live: list[Pod] = []
    unseen: list[Pod] = []
    version = 0

    def request() -> ClassAssigned:
        looked: tuple[LiveReadKind, ...] = ()
        while True:
            answer = scene.ask(review(replica_set), looked=looked)
            if isinstance(answer, ClassAssigned):
                return answer
            assert isinstance(answer, LiveReadNeeded)
            if answer.what is LiveReadKind.PODS:
                scene.admission.record_pods(replica_set.uid, live, str(version), 0)
            looked = (*looked, answer.what)

    while len(live) < replicas:
        batch, refused = 1, False
        while len(live) < replicas and not refused:
            for answer in [request() for _ in range(min(batch, replicas - len(live)))]:
                if randoms.random() < 0.3:
                    refused = True
                    continue
                version += 1
                pod = build.pod(
                    owner=replica_set,
                    node="",
                    phase="Pending",
                    annotations=annotations_of(answer),
                    resourceVersion=str(version),
                )
                live.append(pod)
                unseen.append(pod)
                while unseen and randoms.random() < 0.4:
                    shown = unseen.pop(0)
                    scene.view[PODS].put(shown)
                    scene.view[PODS].resource_version = shown.metadata.resource_version
            batch *= 2
    classes = Counter(pod.annotations["plimsoll.dev/placement-class"] for pod in live)
    wanted = target(replicas, Share(minimum, percentage))
    assert (classes["spot"], classes["on-demand"]) == (wanted.spot, wanted.on_demand)


def test_the_ledger_forgets_an_owner_with_its_last_entry():
    ledger = AdmissionLedger()
    ledger.record(AdmittedPodEntry("a", "rs", SPOT, PlacementReason.SHARE, 0))
    ledger.record(AdmittedPodEntry("b", "rs", ON_DEMAND, PlacementReason.SHARE, 1))
    assert (ledger.pending("rs").spot, ledger.pending("rs").on_demand) == (1, 1)
    assert ledger.find("a", "another") is None
    ledger.arrived("a")
    ledger.arrived("a")
    assert ledger.pending("rs").total == 1
    ledger.expire(1 + KEPT_SECONDS)
    assert ledger.pending("rs").total == 0
    assert not ledger._by_owner


def test_a_rollout_that_grows_step_by_step_is_measured_by_its_step():
    deployment, replica_set = workload(4, "50%")
    step = build.replica_set(replicas=1, uid=replica_set.uid, owner=deployment)
    scene = Scene(deployment, step)
    scene.admit(step)
    assert isinstance(scene.ask(review(step)), LiveReadNeeded)
    scene.view[REPLICASETS].put(build.replica_set(replicas=2, uid=replica_set.uid, owner=deployment))
    assert scene.admit(step).assignment.capacity_class is ON_DEMAND
