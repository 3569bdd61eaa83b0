"""The invariant checker notices nodes that go too early, groups that get too large or too small, and machines that are bought twice."""

from __future__ import annotations

import pytest

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json
from plimsoll.providers.kwok.nodes import KwokOrder, order_body
from plimsoll.simulate.custom_kinds import CONTAINERS, NODE_GROUPS
from tests.simulate.rogue_operator import KEY, Deed, RogueOperator, container, request, rules_broken


async def properly(rogue: RogueOperator) -> None:
    node = await rogue.machine()
    await rogue.taints(node)
    await rogue.lists_pods_on(node)
    await rogue.account.delete(KEY)


async def without_the_taint(rogue: RogueOperator) -> None:
    node = await rogue.machine()
    await rogue.lists_pods_on(node)
    await rogue.account.delete(KEY)


async def listed_before_the_taint(rogue: RogueOperator) -> None:
    node = await rogue.machine()
    await rogue.lists_pods_on(node)
    await rogue.taints(node)
    await rogue.account.delete(KEY)


async def with_a_pod(rogue: RogueOperator) -> None:
    node = await rogue.machine()
    body: Json = {
        "metadata": {"name": "lonely"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "x"}]},
    }
    await rogue.world.cluster.create(kinds.PODS, body)
    await rogue.taints(node)
    await rogue.lists_pods_on(node)
    await rogue.account.delete(KEY)


async def with_volumes(rogue: RogueOperator) -> None:
    node = await rogue.machine()
    storage = rogue.world.cluster.api.storage
    found = storage.node(node)
    assert found is not None
    attached = [{"name": "kubernetes.io/csi/one", "devicePath": ""}]
    storage.put(kinds.NODES, {**found, "status": {**found["status"], "volumesAttached": attached}})
    await rogue.taints(node)
    await rogue.lists_pods_on(node)
    await rogue.account.delete(KEY)


async def with_drives(rogue: RogueOperator) -> None:
    node = await rogue.machine()
    holder = container("holder", allocations={"drives": ["SN-1"]})
    rogue.world.cluster.load(CONTAINERS, [{**holder, "spec": {**holder["spec"], "nodeAffinity": node}}])
    await rogue.taints(node)
    await rogue.lists_pods_on(node)
    await rogue.account.delete(KEY)


async def a_node_of_nobody(rogue: RogueOperator) -> None:
    """A Node object goes while its pods run."""
    name = rogue.pods()[0]["spec"]["nodeName"]
    node = rogue.world.cluster.api.storage.node(name)
    assert node is not None
    await rogue.asks("DELETE", f"/api/v1/nodes/{name}", {"preconditions": {"uid": node["metadata"]["uid"]}})


@pytest.mark.parametrize(
    ("deed", "rules"),
    [
        (properly, set()),
        (without_the_taint, {"S6"}),
        (listed_before_the_taint, {"S6"}),
        (with_a_pod, {"S6"}),
        (with_volumes, {"S6"}),
        (with_drives, {"S6"}),
        (a_node_of_nobody, {"S6"}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_node_that_goes_too_early_is_noticed(deed: Deed, rules: set[str]):
    assert rules_broken(deed) == rules


async def one_too_many(rogue: RogueOperator) -> None:
    for key in ("one", "two", "three"):
        await rogue.machine(key, wait=0)


async def one_too_few(rogue: RogueOperator) -> None:
    storage = rogue.world.cluster.api.storage
    (group,) = rogue.world.cluster.all(NODE_GROUPS)
    storage.put(NODE_GROUPS, {**group, "spec": {**group["spec"], "minNodes": 1}})
    await rogue.world.pass_time(600)
    await properly(rogue)


async def nobody_wrote_it_down(rogue: RogueOperator) -> None:
    await rogue.account.create(request("of-nobody"))


async def bought_twice(rogue: RogueOperator) -> None:
    """A cloud that takes a key for another: the invariant checker looks at the machines, not at promises."""
    await rogue.machine(wait=0)
    again = order_body(KwokOrder(request(), rogue.world.clock.now()))
    named = {**again["metadata"], "name": "another-order"}
    namespace = rogue.world.config.operator.namespace
    await rogue.world.cluster.create(kinds.CONFIGMAPS, {**again, "metadata": named}, namespace)


async def no_id(rogue: RogueOperator) -> None:
    await rogue.account.delete("")


@pytest.mark.parametrize(
    ("deed", "rules"),
    [
        (one_too_many, {"S7"}),
        (one_too_few, {"S7"}),
        (nobody_wrote_it_down, {"S10"}),
        (bought_twice, {"S10"}),
        (no_id, {"S8"}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_wrong_numbers_of_machines_are_noticed(deed: Deed, rules: set[str]):
    assert rules_broken(deed) == rules
