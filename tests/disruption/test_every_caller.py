"""The rulebook's table, asked of everyone who evicts: the actuator, placement and node groups give one answer."""

from __future__ import annotations

import pytest

from tests.disruption.scenario import CALLERS, RULES, Scenario, budget

ONE_READY = (False, True, True)
ONLY_READY = (True, False, False)
SAFE, KARPENTER = "cluster-autoscaler.kubernetes.io/safe-to-evict", "karpenter.sh/do-not-disrupt"

TABLE = [
    Scenario("nothing forbids it", ""),
    Scenario("a budget allows it", "", budgets=(budget(allowed=1),)),
    Scenario("a budget allows none", "NotEnoughPdb", budgets=(budget(allowed=0),)),
    Scenario("two budgets match", "SeveralBudgets", budgets=(budget("a", allowed=3), budget("b", allowed=3))),
    Scenario(
        "a budget whose controller has not observed it",
        "BudgetNotCounted",
        budgets=(budget(allowed=3, observed_generation=0),),
    ),
    Scenario(
        "unready under AlwaysAllow",
        "",
        ready=ONE_READY,
        budgets=(budget(allowed=0, healthy=1, unhealthy="AlwaysAllow"),),
    ),
    Scenario(
        "unready under AlwaysAllow, not observed yet",
        "",
        ready=ONE_READY,
        budgets=(budget(allowed=0, unhealthy="AlwaysAllow", observed_generation=0),),
    ),
    Scenario(
        "unready, the healthy count is met", "", ready=ONE_READY, budgets=(budget(allowed=0, healthy=2, desired=2),)
    ),
    Scenario(
        "unready, the healthy count is not met",
        "NotEnoughPdb",
        ready=ONE_READY,
        budgets=(budget(allowed=0, healthy=1, desired=2),),
    ),
    Scenario(
        "unready, a budget that wants nobody",
        "NotEnoughPdb",
        ready=ONE_READY,
        budgets=(budget(allowed=0, healthy=2, desired=0),),
    ),
    Scenario("the last ready replica", "LastReady", ready=ONLY_READY),
    Scenario("the last ready replica, a budget allows it", "LastReady", ready=ONLY_READY, budgets=(budget(allowed=1),)),
    Scenario("safe-to-evict: false", "NotSafeToEvictAnnotation", annotations={SAFE: "false"}),
    Scenario("safe-to-evict: on-completion", "NotSafeToEvictAnnotation", annotations={SAFE: "on-completion"}),
    Scenario("do-not-disrupt: true", "NotSafeToEvictAnnotation", annotations={KARPENTER: "true"}),
    Scenario(
        "do-not-disrupt: 90m, an hour after the start", "NotSafeToEvictAnnotation", annotations={KARPENTER: "90m"}
    ),
    Scenario("do-not-disrupt: 30m, an hour after the start", "", annotations={KARPENTER: "30m"}),
    Scenario("do-not-disrupt: false", "", annotations={KARPENTER: "false"}),
    Scenario("do-not-disrupt: yes protects nothing", "", annotations={KARPENTER: "yes"}),
]


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("scenario", TABLE, ids=lambda scenario: scenario.title)
def test_every_caller_gives_the_same_answer(scenario: Scenario, caller: str) -> None:
    found = CALLERS[caller](scenario) & RULES
    assert found == ({scenario.expected} if scenario.expected else set())
