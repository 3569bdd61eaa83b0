"""The ledger counts PodDisruptionBudgets as the API server does."""

from __future__ import annotations

from datetime import timedelta

import pytest

from plimsoll.disruption.ledger import Disruption, DisruptionLedger
from plimsoll.disruption.pdb import DISRUPTED_PODS_LIMIT
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.apps import Deployment, ReplicaSet
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.policy import PodDisruptionBudget
from plimsoll.kube.types.resources import BUDGETS, DEPLOYMENTS, PODS, REPLICASETS, STATEFULSETS, Key
from plimsoll.runtime.decision import Blocker, DisruptionLimits
from tests import build

WEB = Key("Deployment", "default", "web")


def ledger(per_workload: int = 100, per_cluster: int = 1000) -> DisruptionLedger:
    made = DisruptionLedger(DisruptionLimits(per_workload, per_cluster, timedelta(hours=1)))
    made.recall(())
    return made


def workload(replicas: int = 3) -> tuple[Deployment, ReplicaSet, list[Pod]]:
    deployment = build.deployment("web", replicas=replicas)
    replica_set = build.replica_set("web-1", replicas=replicas, owner=deployment)
    pods = [build.pod(f"web-1-{n}", owner=replica_set, labels={"app": "web"}) for n in range(replicas)]
    return deployment, replica_set, pods


def view(deployment: Deployment, replica_set: ReplicaSet, pods: list[Pod], *budgets: PodDisruptionBudget) -> View:
    return View.of(
        {PODS: pods, REPLICASETS: [replica_set], DEPLOYMENTS: [deployment], STATEFULSETS: [], BUDGETS: list(budgets)}
    )


def refusal(book: DisruptionLedger, pod: Pod, seen: View, *, may_be_last: bool = False) -> str:
    blocker: Blocker | None = book.refusal(pod, seen, 0.0, workload=WEB, may_be_last=may_be_last)
    return blocker.code if blocker else ""


def test_a_budget_with_room_allows_and_one_without_does_not():
    deployment, replica_set, pods = workload()
    assert refusal(ledger(), pods[0], view(deployment, replica_set, pods, build.budget(allowed=1))) == ""
    assert refusal(ledger(), pods[0], view(deployment, replica_set, pods, build.budget(allowed=0))) == "NotEnoughPdb"


def test_two_budgets_over_one_pod_mean_never():
    deployment, replica_set, pods = workload()
    seen = view(deployment, replica_set, pods, build.budget("a", allowed=3), build.budget("b", allowed=3))
    assert refusal(ledger(), pods[0], seen) == "SeveralBudgets"


def test_a_budget_elsewhere_or_over_other_pods_does_not_matter():
    deployment, replica_set, pods = workload()
    other = build.budget("other", selector={"matchLabels": {"app": "db"}}, allowed=0)
    elsewhere = build.budget("elsewhere", namespace="kube-system", allowed=0)
    assert refusal(ledger(), pods[0], view(deployment, replica_set, pods, other, elsewhere)) == ""


def test_selector_expressions_are_followed():
    deployment, replica_set, pods = workload()
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]}
    seen = view(deployment, replica_set, pods, build.budget(selector=selector, allowed=0))
    assert refusal(ledger(), pods[0], seen) == "NotEnoughPdb"


@pytest.mark.parametrize(
    ("policy", "healthy", "desired", "expected"),
    [
        ("AlwaysAllow", 1, 2, ""),  # whatever the count
        ("IfHealthyBudget", 2, 2, ""),  # the healthy count is met without it
        ("IfHealthyBudget", 1, 2, "NotEnoughPdb"),
        ("IfHealthyBudget", 0, 0, "NotEnoughPdb"),  # a budget that wants nothing is not "met"
    ],
)
def test_an_unready_pod_follows_the_budgets_policy(policy: str, healthy: int, desired: int, expected: str):
    deployment, replica_set, pods = workload()
    pods[0] = build.pod("web-1-0", owner=replica_set, labels={"app": "web"}, ready=False)
    rule = build.budget(allowed=0, healthy=healthy, desired=desired, unhealthy=policy)
    assert refusal(ledger(), pods[0], view(deployment, replica_set, pods, rule)) == expected


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_pods_that_never_ran_or_have_finished_go_whatever_the_budget(phase: str):
    deployment, replica_set, pods = workload()
    pods[0] = build.pod("web-1-0", owner=replica_set, phase=phase)
    seen = view(deployment, replica_set, pods, build.budget(allowed=0))
    assert refusal(ledger(per_workload=0), pods[0], seen) == ""


def test_a_budget_that_was_changed_and_not_counted_yet_says_nothing():
    deployment, replica_set, pods = workload()
    seen = view(deployment, replica_set, pods, build.budget(allowed=5, observed_generation=0))
    assert refusal(ledger(), pods[0], seen) == "BudgetNotCounted"


@pytest.mark.parametrize(("more", "expected"), [(0, ""), (1, "BudgetBusy")])
def test_a_budget_with_too_many_evictions_to_see_through_is_left_alone(more: int, expected: str):
    deployment, replica_set, pods = workload()
    under_way = {f"pod-{number}": "2026-01-01T00:00:00Z" for number in range(DISRUPTED_PODS_LIMIT + more)}
    seen = view(deployment, replica_set, pods, build.budget(allowed=5, disrupted=under_way))
    assert refusal(ledger(), pods[0], seen) == expected


def test_our_own_evictions_count_before_the_budget_shows_them():
    deployment, replica_set, pods = workload()
    book = ledger()
    book.enter(Disruption(WEB, f"default/{pods[0].name}", pods[0].uid, at=0.0))
    assert refusal(book, pods[1], view(deployment, replica_set, pods, build.budget(allowed=1))) == "NotEnoughPdb"
    counted = build.budget(allowed=1, disrupted={pods[0].name: "2026-01-01T00:00:00Z"})
    assert refusal(book, pods[1], view(deployment, replica_set, pods, counted)) == ""


def test_an_eviction_stops_counting_against_the_budget_once_the_view_shows_the_pod_leaving():
    deployment, replica_set, pods = workload()
    book = ledger()
    book.enter(Disruption(WEB, f"default/{pods[0].name}", pods[0].uid, at=0.0))
    leaving = build.pod(pods[0].name, owner=replica_set, labels={"app": "web"}, terminating=True, uid=pods[0].uid)
    seen = view(deployment, replica_set, [leaving, *pods[1:]], build.budget(allowed=1))
    assert refusal(book, pods[1], seen) == ""
