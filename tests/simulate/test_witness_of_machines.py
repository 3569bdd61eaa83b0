"""The witness notices nodes that go too early, groups that get too large or too small, and machines that are bought twice."""

from __future__ import annotations

import pytest

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json
from plimsoll.providers.kwok.nodes import Order, order_body
from plimsoll.simulate.custom_kinds import CONTAINERS, NODE_GROUPS
from tests.simulate.villain import KEY, Deed, Villain, container, request, rules_broken


async def properly(villain: Villain) -> None:
    node = await villain.machine()
    await villain.taints(node)
    await villain.lists_pods_on(node)
    await villain.account.delete(KEY)


async def without_the_taint(villain: Villain) -> None:
    node = await villain.machine()
    await villain.lists_pods_on(node)
    await villain.account.delete(KEY)


async def listed_before_the_taint(villain: Villain) -> None:
    node = await villain.machine()
    await villain.lists_pods_on(node)
    await villain.taints(node)
    await villain.account.delete(KEY)


async def with_a_pod(villain: Villain) -> None:
    node = await villain.machine()
    body: Json = {
        "metadata": {"name": "lonely"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "x"}]},
    }
    await villain.world.cluster.create(kinds.PODS, body)
    await villain.taints(node)
    await villain.lists_pods_on(node)
    await villain.account.delete(KEY)


async def with_volumes(villain: Villain) -> None:
    node = await villain.machine()
    storage = villain.world.cluster.api.storage
    found = storage.node(node)
    assert found is not None
    attached = [{"name": "kubernetes.io/csi/one", "devicePath": ""}]
    storage.put(kinds.NODES, {**found, "status": {**found["status"], "volumesAttached": attached}})
    await villain.taints(node)
    await villain.lists_pods_on(node)
    await villain.account.delete(KEY)


async def with_drives(villain: Villain) -> None:
    node = await villain.machine()
    holder = container("holder", allocations={"drives": ["SN-1"]})
    villain.world.cluster.load(CONTAINERS, [{**holder, "spec": {**holder["spec"], "nodeAffinity": node}}])
    await villain.taints(node)
    await villain.lists_pods_on(node)
    await villain.account.delete(KEY)


async def a_node_of_nobody(villain: Villain) -> None:
    """A Node object goes while its pods run."""
    name = villain.pods()[0]["spec"]["nodeName"]
    node = villain.world.cluster.api.storage.node(name)
    assert node is not None
    await villain.asks("DELETE", f"/api/v1/nodes/{name}", {"preconditions": {"uid": node["metadata"]["uid"]}})


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


async def one_too_many(villain: Villain) -> None:
    for key in ("one", "two", "three"):
        await villain.machine(key, wait=0)


async def one_too_few(villain: Villain) -> None:
    storage = villain.world.cluster.api.storage
    (group,) = villain.world.cluster.all(NODE_GROUPS)
    storage.put(NODE_GROUPS, {**group, "spec": {**group["spec"], "minNodes": 1}})
    await villain.world.pass_time(600)
    await properly(villain)


async def nobody_wrote_it_down(villain: Villain) -> None:
    await villain.account.create(request("of-nobody"))


async def bought_twice(villain: Villain) -> None:
    """A cloud that takes a key for another: the witness looks at the machines, not at promises."""
    await villain.machine(wait=0)
    again = order_body(Order(request(), villain.world.clock.now()))
    named = {**again["metadata"], "name": "another-order"}
    namespace = villain.world.config.operator.namespace
    await villain.world.cluster.create(kinds.CONFIGMAPS, {**again, "metadata": named}, namespace)


async def no_id(villain: Villain) -> None:
    await villain.account.delete("")


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
