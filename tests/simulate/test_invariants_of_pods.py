"""The invariant checker notices what must not happen to pods: a judge who never objects proves nothing."""

from __future__ import annotations

import pytest

from plimsoll.config import Config, DisruptionLimitsConfig, OperatorConfig
from plimsoll.embedded_cluster.api import kinds
from plimsoll.simulate.population import create_object
from tests.simulate.rogue_operator import Deed, RogueOperator, rules_broken

TIGHT = Config(operator=OperatorConfig(disruption_limits=DisruptionLimitsConfig(per_workload=1)))


async def nothing(_: RogueOperator) -> None: ...


async def one_eviction(rogue: RogueOperator) -> None:
    await rogue.evicts(rogue.pods()[-1])


async def without_uid(rogue: RogueOperator) -> None:
    await rogue.evicts(rogue.pods()[-1], uid=False)


async def a_deletion(rogue: RogueOperator) -> None:
    pod = rogue.pods()[-1]
    options = {"preconditions": {"uid": pod["metadata"]["uid"]}}
    await rogue.asks("DELETE", f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}", options)


async def two_at_once(rogue: RogueOperator) -> None:
    *_, second, first = rogue.pods()
    await rogue.evicts(first)
    await rogue.evicts(second)


async def two_in_a_row(rogue: RogueOperator) -> None:
    await rogue.evicts(rogue.pods()[-1])
    await rogue.world.pass_time(60)
    await rogue.evicts(rogue.pods()[-1])


async def after_a_loss(rogue: RogueOperator) -> None:
    """One node goes by itself, with the pods on it; then one more pod of the workload has to go."""
    pod = rogue.pods()[-1]
    rogue.world.cluster.remove_node(pod["spec"]["nodeName"])
    await rogue.world.pass_time(60)
    await rogue.evicts(rogue.pods()[-1])


async def the_minimum(rogue: RogueOperator) -> None:
    await rogue.evicts(rogue.pods()[0])


async def against_a_budget(rogue: RogueOperator) -> None:
    """Evicted first; the budget that forbids it is there before the next one goes, and was not yet looked at by its controller."""
    body = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 4, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 1, "observedGeneration": 1, "currentHealthy": 4, "desiredHealthy": 3},
    }  # fmt: skip
    rogue.world.cluster.load(kinds.BUDGETS, [body])
    await rogue.evicts(rogue.pods()[-1])


@pytest.mark.parametrize(
    ("deed", "config", "rules"),
    [
        (nothing, Config(), set()),
        (one_eviction, Config(), set()),
        (two_in_a_row, Config(), set()),
        (without_uid, Config(), {"S8"}),
        (a_deletion, Config(), {"S4"}),
        (two_at_once, Config(), {"S4"}),
        (two_in_a_row, TIGHT, {"S5"}),
        (after_a_loss, TIGHT, {"S5"}),
        (the_minimum, Config(), {"S13"}),
        (against_a_budget, Config(), {"S4"}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_must_not_happen_to_pods_is_noticed(deed: Deed, config: Config, rules: set[str]):
    assert rules_broken(deed, config) == rules


async def the_last_ready(rogue: RogueOperator) -> None:
    *others, last = rogue.pods()
    for pod in others:
        notes = {"metadata": {"annotations": {"controlplane.test/ready": "false"}}}
        await rogue.world.cluster.api.objects.patch(
            kinds.PODS, "default", pod["metadata"]["name"], notes, "application/merge-patch+json"
        )
    await rogue.world.pass_time(5)
    await create_object(
        rogue.world.cluster,
        {
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"maxUnavailable": "100%", "selector": {"matchLabels": {"app": "web"}}},
        },
    )  # fmt: skip
    await rogue.world.pass_time(5)
    assert await rogue.evicts(last) == 201


def test_the_last_ready_pod_is_not_taken_whatever_a_budget_allows():
    assert rules_broken(the_last_ready, Config()) == {"S4"}
