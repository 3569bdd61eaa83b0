"""Where nobody wrote a budget: one pod of an owner at a time, never the last, and within the limits."""

from __future__ import annotations

from plimsoll.disruption.ledger import UNDER_WAY_SECONDS, Disruption, DisruptionLedger
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import BUDGETS, DEPLOYMENTS, PODS, REPLICASETS, STATEFULSETS, Key
from tests import build
from tests.runtime.test_disruption_budgets import WEB, ledger, refusal, view, workload


def test_one_pod_of_an_owner_at_a_time():
    deployment, replica_set, pods = workload()
    book = ledger()
    seen = view(deployment, replica_set, pods)
    assert refusal(book, pods[0], seen) == ""
    book.enter(Disruption(WEB, f"default/{pods[0].name}", pods[0].uid, at=0.0))
    assert refusal(book, pods[1], seen) == "OwnerDisrupted"


def test_a_pod_missing_for_any_reason_holds_the_next_one_back():
    deployment, replica_set, pods = workload()
    unready = build.pod(pods[2].name, owner=replica_set, ready=False)
    assert refusal(ledger(), pods[0], view(deployment, replica_set, [*pods[:2], unready])) == "OwnerDisrupted"
    assert refusal(ledger(), pods[0], view(deployment, replica_set, pods[:2])) == "OwnerDisrupted"
    leaving = build.pod(pods[2].name, owner=replica_set, terminating=True)
    assert refusal(ledger(), pods[0], view(deployment, replica_set, [*pods[:2], leaving])) == "OwnerDisrupted"


def test_the_pod_that_is_itself_unready_may_go_when_all_others_are_ready():
    deployment, replica_set, pods = workload()
    unready = build.pod(pods[0].name, owner=replica_set, ready=False)
    assert refusal(ledger(), unready, view(deployment, replica_set, [unready, *pods[1:]])) == ""


def test_all_replica_sets_of_a_deployment_count_together():
    deployment, replica_set, pods = workload(replicas=2)
    newer = build.replica_set("web-2", replicas=1, owner=deployment)
    starting = build.pod("web-2-0", owner=newer, ready=False)
    seen = View.of(
        {
            PODS: [pods[0], starting],
            REPLICASETS: [replica_set, newer],
            DEPLOYMENTS: [deployment],
            STATEFULSETS: [],
            BUDGETS: [],
        }
    )
    assert refusal(ledger(), pods[0], seen) == "LastReady"
    ready = build.pod("web-2-1", owner=newer)
    seen[PODS].put(ready)
    assert refusal(ledger(), pods[0], seen) == ""


def test_never_the_last_ready_pod_unless_the_user_allows_it():
    deployment, replica_set, pods = workload(replicas=1)
    seen = view(deployment, replica_set, pods)
    assert refusal(ledger(), pods[0], seen) == "LastReady"
    assert refusal(ledger(), pods[0], seen, may_be_last=True) == ""
    assert refusal(ledger(), pods[0], view(deployment, replica_set, pods, build.budget(allowed=1))) == "LastReady"


def test_a_pod_without_a_controller_is_the_last_of_itself():
    bare = build.pod("bare")
    seen = View.of({PODS: [bare], REPLICASETS: [], DEPLOYMENTS: [], STATEFULSETS: [], BUDGETS: []})
    assert refusal(ledger(), bare, seen) == "LastReady"


def test_an_owner_of_a_kind_that_nobody_watches_is_judged_by_its_pods():
    foreign = build.deployment("gang")
    pods = [
        build.pod(
            f"gang-{n}",
            ownerReferences=[{"kind": "Rollout", "name": "gang", "uid": foreign.uid, "controller": True}],
            ready=n != 2,
        )
        for n in range(3)
    ]
    seen = View.of({PODS: pods, REPLICASETS: [], DEPLOYMENTS: [], STATEFULSETS: [], BUDGETS: []})
    assert refusal(ledger(), pods[0], seen) == "OwnerDisrupted"
    assert refusal(ledger(), pods[2], seen) == ""


def test_a_namesake_made_since_is_not_the_owner():
    deployment, _, pods = workload()
    namesake = build.replica_set("web-1", replicas=3, owner=deployment)
    seen = view(deployment, namesake, pods)
    # Judged by its own, unknown, ReplicaSet: three pods stand, so one may go.
    assert refusal(ledger(), pods[0], seen) == ""


def _many_workloads(book: DisruptionLedger, workload_key: Key, count: int, at: float) -> None:
    for number in range(count):
        book.enter(Disruption(workload_key, f"default/gone-{number}", f"gone-{at}-{number}-{workload_key}", at))


def test_limits_per_workload_and_cluster_over_a_rolling_period():
    deployment, replica_set, pods = workload()
    seen = view(deployment, replica_set, pods)
    book = ledger(per_workload=2, per_cluster=5)
    _many_workloads(book, WEB, 2, at=0.0)
    blocker = book.refusal(pods[0], seen, 10.0, workload=WEB)
    assert blocker is not None
    assert (blocker.code, "Deployment/default/web" in blocker.message) == ("DisruptionLimit", True)
    assert book.refusal(pods[0], seen, 10.0, workload=Key("Deployment", "default", "other")) is None
    _many_workloads(book, Key("Deployment", "default", "others"), 3, at=100.0)
    blocker = book.refusal(pods[0], seen, 200.0, workload=Key("Deployment", "default", "third"))
    assert blocker is not None
    assert "the cluster" in blocker.message
    # An hour after the first two, they no longer count.
    assert book.refusal(pods[0], seen, 3600.0, workload=WEB) is None


def test_a_node_that_was_lost_by_itself_counts():
    deployment, replica_set, pods = workload()
    seen = view(deployment, replica_set, pods)
    book = ledger(per_workload=2)
    book.record_node_loss(tuple(pods[:2]), seen, 0.0)
    book.record_node_loss(tuple(pods[:2]), seen, 1.0)  # seen twice (NotReady, then deleted), lost once
    assert len(book.recent(2.0)) == 2
    blocker = book.refusal(pods[2], seen, 2.0, workload=WEB)
    assert blocker is not None
    assert blocker.code == "DisruptionLimit"


def test_nothing_is_disrupted_before_memory_was_read_or_after_the_tenure_ended():
    deployment, replica_set, pods = workload()
    seen = view(deployment, replica_set, pods)
    book = ledger()
    book.close()
    assert refusal(book, pods[0], seen) == "HistoryNotRead"
    book.recall([Disruption(WEB, f"default/{pods[1].name}", pods[1].uid, at=-5.0)])
    # The former leader asked pods[1] to leave; this view does not show it yet.
    assert refusal(book, pods[0], seen) == "OwnerDisrupted"


def test_what_was_written_down_and_never_sent_stops_holding_others_back():
    deployment, replica_set, pods = workload()
    seen = view(deployment, replica_set, pods)
    book = ledger()
    book.recall([Disruption(WEB, f"default/{pods[1].name}", pods[1].uid, at=0.0)])
    assert book.refusal(pods[0], seen, UNDER_WAY_SECONDS - 1, workload=WEB) is not None
    assert book.refusal(pods[0], seen, UNDER_WAY_SECONDS, workload=WEB) is None
    assert len(book.recent(UNDER_WAY_SECONDS)) == 1  # against the limits it counts for the whole period


def test_a_lost_nodes_pods_count_whether_or_not_they_were_heard_of_first():
    deployment, replica_set, pods = workload()
    unready = build.pod("web-1-9", owner=replica_set, ready=False)
    daemon = build.pod(
        "agent", ownerReferences=[{"kind": "DaemonSet", "name": "agent", "uid": "d", "controller": True}]
    )
    pending = build.pod("web-1-8", owner=replica_set, phase="Pending")
    book = ledger()
    book.record_node_loss((pods[0], unready, daemon, pending), view(deployment, replica_set, pods), 0.0)
    assert sorted(disruption.pod for disruption in book.recent(1.0)) == ["default/web-1-0", "default/web-1-9"]


def test_what_another_tenure_did_counts_without_reopening_a_ledger_whose_own_tenure_is_over():
    deployment, replica_set, pods = workload()
    seen = view(deployment, replica_set, pods)
    book = ledger()
    book.close()
    book.learn([Disruption(WEB, f"default/{pods[1].name}", pods[1].uid, at=0.0)])
    assert refusal(book, pods[0], seen) == "HistoryNotRead"
    book.recall(())
    assert refusal(book, pods[0], seen) == "OwnerDisrupted"


def test_a_period_begins_when_a_pod_was_asked_to_leave_and_not_when_that_was_decided():
    """Found in a random history: an eviction that waited for its entry in memory stopped counting too early."""
    deployment, replica_set, pods = workload()
    seen = view(deployment, replica_set, pods)
    book = ledger(per_workload=1)
    decided = Disruption(WEB, "default/gone", "gone", at=0.0)
    book.enter(decided)
    book.happened(decided, 60.0)
    assert book.refusal(pods[0], seen, 3630.0, workload=WEB) is not None
    assert book.refusal(pods[0], seen, 3661.0, workload=WEB) is None
