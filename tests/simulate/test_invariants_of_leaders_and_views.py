"""The invariant checker notices a former leader that could do harm, and acts that rest on nothing."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.embedded_cluster.api import kinds
from tests.simulate.rogue_operator import Deed, RogueOperator, rules_broken


async def _leads(rogue: RogueOperator, who: str) -> None:
    operator = rogue.world.config.operator
    lease: dict[str, Any] = {
        "metadata": {"name": operator.leader_election.lease_name, "namespace": operator.namespace},
        "spec": {"holderIdentity": who},
    }
    rogue.world.cluster.load(kinds.LEASES, [lease])


async def _annotates(rogue: RogueOperator, **guards: str) -> None:
    pod = rogue.pods()[0]["metadata"]
    body = {"metadata": {**guards, "annotations": {"controller.kubernetes.io/pod-deletion-cost": "1"}}}
    await rogue.asks("PATCH", f"/api/v1/namespaces/default/pods/{pod['name']}", body)


async def a_late_write(rogue: RogueOperator) -> None:
    await _leads(rogue, "plimsoll/another")
    await _annotates(rogue)


async def a_late_write_that_says_which(rogue: RogueOperator) -> None:
    await _leads(rogue, "plimsoll/another")
    await _annotates(rogue, uid=rogue.pods()[0]["metadata"]["uid"])


async def a_write_of_the_leader(rogue: RogueOperator) -> None:
    await _leads(rogue, "plimsoll/rogue")
    await _annotates(rogue)


async def a_late_creation_without_a_name(rogue: RogueOperator) -> None:
    await _leads(rogue, "plimsoll/another")
    await rogue.asks("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"generateName": "some-"}})


async def a_newcomer_who_has_not_looked(rogue: RogueOperator) -> None:
    await RogueOperator(rogue.world, "plimsoll/newcomer").evicts(rogue.pods()[-1])


async def one_that_looked_at_a_cache(rogue: RogueOperator) -> None:
    newcomer = RogueOperator(rogue.world, "plimsoll/newcomer")
    await newcomer.looks()
    other = RogueOperator(rogue.world, "plimsoll/other")
    for path in ("/api/v1/pods", "/api/v1/nodes"):
        await other.asks("GET", path, resourceVersion="0")
    await other.evicts(rogue.pods()[-1])


async def a_view_that_goes_backwards(rogue: RogueOperator) -> None:
    await rogue.asks("GET", "/api/v1/pods", watch="true", resourceVersion=str(rogue.world.cluster.api.storage.revision))
    await rogue.asks("GET", "/api/v1/pods", watch="true", resourceVersion="2")


async def where_nodes_are_forbidden(rogue: RogueOperator) -> None:
    rogue.world.invariants.reply_received("plimsoll/rogue", "GET", "/api/v1/nodes", {}, 403)
    await rogue.evicts(rogue.pods()[-1])


async def where_nothing_was_heard_for_long(rogue: RogueOperator) -> None:
    rogue.world.invariants.reply_received("plimsoll/rogue", "GET", "/api/v1/nodes", {}, 0)
    await rogue.world.pass_time(300)
    await rogue.evicts(rogue.pods()[-1])


async def where_no_node_is_ready(rogue: RogueOperator) -> None:
    for node in rogue.world.cluster.all(kinds.NODES):
        rogue.world.cluster.kubelets.silence(node["metadata"]["name"])
    await rogue.world.pass_time(60)
    await rogue.evicts(rogue.pods()[-1])


@pytest.mark.parametrize(
    ("deed", "rules"),
    [
        (a_late_write, {"S9"}),
        (a_late_write_that_says_which, set()),
        (a_write_of_the_leader, set()),
        (a_late_creation_without_a_name, {"S9"}),
        (a_newcomer_who_has_not_looked, {"S11"}),
        (one_that_looked_at_a_cache, {"S11"}),
        (a_view_that_goes_backwards, {"S11"}),
        (where_nodes_are_forbidden, {"S12"}),
        (where_nothing_was_heard_for_long, {"S12"}),
        (where_no_node_is_ready, {"S12"}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_acts_of_the_wrong_process_or_on_nothing_are_noticed(deed: Deed, rules: set[str]):
    assert rules_broken(deed) == rules


async def in_circles(rogue: RogueOperator) -> None:
    for _ in range(16):
        await rogue.evicts(rogue.pods()[-1])
        await rogue.world.pass_time(60)


async def writing_for_ever(rogue: RogueOperator) -> None:
    await _annotates(rogue)
    rogue.world.invariants.liveness.must_be_at_rest(600)


async def at_rest(rogue: RogueOperator) -> None:
    await _annotates(rogue)
    await rogue.world.pass_time(1000)
    rogue.world.invariants.liveness.must_be_at_rest(600)


async def someone_is_missing(rogue: RogueOperator) -> None:
    await rogue.evicts(rogue.pods()[-1])
    rogue.world.invariants.liveness.must_be_at_rest(0)


@pytest.mark.parametrize(
    ("deed", "rules"),
    [(in_circles, {"L3"}), (writing_for_ever, {"L2"}), (at_rest, set()), (someone_is_missing, {"L1"})],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_comes_to_no_end_is_noticed(deed: Deed, rules: set[str]):
    assert rules_broken(deed) == rules
