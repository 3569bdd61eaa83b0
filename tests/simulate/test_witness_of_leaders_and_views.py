"""The witness notices a former leader that could do harm, and acts that rest on nothing."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.embedded_cluster.api import kinds
from tests.simulate.villain import Deed, Villain, rules_broken


async def _leads(villain: Villain, who: str) -> None:
    operator = villain.world.config.operator
    lease: dict[str, Any] = {
        "metadata": {"name": operator.leader_election.lease_name, "namespace": operator.namespace},
        "spec": {"holderIdentity": who},
    }
    villain.world.cluster.load(kinds.LEASES, [lease])


async def _annotates(villain: Villain, **guards: str) -> None:
    pod = villain.pods()[0]["metadata"]
    body = {"metadata": {**guards, "annotations": {"controller.kubernetes.io/pod-deletion-cost": "1"}}}
    await villain.asks("PATCH", f"/api/v1/namespaces/default/pods/{pod['name']}", body)


async def a_late_write(villain: Villain) -> None:
    await _leads(villain, "plimsoll/another")
    await _annotates(villain)


async def a_late_write_that_says_which(villain: Villain) -> None:
    await _leads(villain, "plimsoll/another")
    await _annotates(villain, uid=villain.pods()[0]["metadata"]["uid"])


async def a_write_of_the_leader(villain: Villain) -> None:
    await _leads(villain, "plimsoll/villain")
    await _annotates(villain)


async def a_late_creation_without_a_name(villain: Villain) -> None:
    await _leads(villain, "plimsoll/another")
    await villain.asks("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"generateName": "some-"}})


async def a_newcomer_who_has_not_looked(villain: Villain) -> None:
    await Villain(villain.world, "plimsoll/newcomer").evicts(villain.pods()[-1])


async def one_that_looked_at_a_cache(villain: Villain) -> None:
    newcomer = Villain(villain.world, "plimsoll/newcomer")
    await newcomer.looks()
    other = Villain(villain.world, "plimsoll/other")
    for path in ("/api/v1/pods", "/api/v1/nodes"):
        await other.asks("GET", path, resourceVersion="0")
    await other.evicts(villain.pods()[-1])


async def a_view_that_goes_backwards(villain: Villain) -> None:
    await villain.asks(
        "GET", "/api/v1/pods", watch="true", resourceVersion=str(villain.world.cluster.api.storage.revision)
    )
    await villain.asks("GET", "/api/v1/pods", watch="true", resourceVersion="2")


async def where_nodes_are_forbidden(villain: Villain) -> None:
    villain.world.witness.heard("plimsoll/villain", "GET", "/api/v1/nodes", {}, 403)
    await villain.evicts(villain.pods()[-1])


async def where_nothing_was_heard_for_long(villain: Villain) -> None:
    villain.world.witness.heard("plimsoll/villain", "GET", "/api/v1/nodes", {}, 0)
    await villain.world.pass_time(300)
    await villain.evicts(villain.pods()[-1])


async def where_no_node_is_ready(villain: Villain) -> None:
    for node in villain.world.cluster.all(kinds.NODES):
        villain.world.cluster.kubelets.silence(node["metadata"]["name"])
    await villain.world.pass_time(60)
    await villain.evicts(villain.pods()[-1])


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


async def in_circles(villain: Villain) -> None:
    for _ in range(16):
        await villain.evicts(villain.pods()[-1])
        await villain.world.pass_time(60)


async def writing_for_ever(villain: Villain) -> None:
    await _annotates(villain)
    villain.world.witness.liveness.must_be_at_rest(600)


async def at_rest(villain: Villain) -> None:
    await _annotates(villain)
    await villain.world.pass_time(1000)
    villain.world.witness.liveness.must_be_at_rest(600)


async def someone_is_missing(villain: Villain) -> None:
    await villain.evicts(villain.pods()[-1])
    villain.world.witness.liveness.must_be_at_rest(0)


@pytest.mark.parametrize(
    ("deed", "rules"),
    [(in_circles, {"L3"}), (writing_for_ever, {"L2"}), (at_rest, set()), (someone_is_missing, {"L1"})],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_comes_to_no_end_is_noticed(deed: Deed, rules: set[str]):
    assert rules_broken(deed) == rules
