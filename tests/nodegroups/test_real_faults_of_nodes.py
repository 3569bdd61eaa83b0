"""Nodes that are all not ready, gone from the list, forbidden, or another by now: faults 10 and 18 on the real control plane."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from plimsoll.controllers.nodegroups.types import NODE_GROUPS
from plimsoll.kube.client.errors import NotFound
from plimsoll.kube.types.core import Node
from plimsoll.kube.types.resources import NODES, PODS
from tests.eventually import eventually
from tests.faults import answers
from tests.faults.faults import Answer, Fault, Hold, Lens
from tests.faults.rules import on
from tests.faults.test_nodes_unknown import not_ready, nothing
from tests.nodegroups.live import Running
from tests.nodegroups.ordeal import DRAIN_TAINT, QUICK, Ordeal

# Whoever is not ready is given up at once, and whoever is missing has been for long enough.
NO_TIME = timedelta(0)
NODES_OF_THE_GROUP = 4  # more than three must be not ready before that alone says that it is rather we who are cut off


async def test_nothing_is_removed_while_no_node_is_known_to_be_well(ordeal: Ordeal) -> None:
    """Fault 18, S12: nobody needs these nodes any more; only what is known of them says that none may go."""
    stage, rules = ordeal.stage, ordeal.rules
    await stage.group(maxNodes=NODES_OF_THE_GROUP, desiredNodes=NODES_OF_THE_GROUP, scaleDownPolicy=QUICK)
    async with ordeal.life("first"):
        await stage.settled(NODES_OF_THE_GROUP)
    await stage.change(desiredNodes=0)
    there = {node.uid for node in await stage.nodes()}
    for see in (not_ready, nothing):
        rule = rules.add(on("get list watch", "nodes"), Lens(see))
        async with ordeal.life(see.__name__, unready_timeout=NO_TIME, joining_timeout=NO_TIME) as running:
            await eventually(lambda: _halted(running) >= 3, "three looks, and each time it is rather we", seconds=180)
        rules.drop(rule)
    await _forbidden(ordeal)
    assert not [one for one in ordeal.record if one.call.destroys]
    assert {node.uid for node in await stage.nodes()} == there
    assert not any(taint.key == DRAIN_TAINT for node in await stage.nodes() for taint in node.spec.taints)
    async with ordeal.life("last"):
        await stage.settled(0)
    await ordeal.was_safe(most=NODES_OF_THE_GROUP)


def _halted(running: Running) -> float:
    name, looks = "plimsoll_decisions_total", {"controller": "nodegroups"}
    return sum(running.counted(name, **looks, reason=reason) for reason in ("TooManyUnready", "NoNodes"))


async def _forbidden(ordeal: Ordeal) -> None:
    mark = len(ordeal.record)
    refused = ordeal.rules.add(on("list watch", "nodes"), Answer(answers.forbidden))
    async with ordeal.life("forbidden") as running:
        others = [store for store in running.operator.view.stores() if store.resource != NODES]
        await eventually(lambda: refused.struck and all(store.synced for store in others), "the others are live")
        await eventually(lambda: "403" in str(running.operator.not_ready()), "it says why it is not ready")
    ordeal.rules.drop(refused)
    assert ordeal.record.works(since=mark) == [], "nothing is done on a part of the truth"


async def test_a_node_that_was_to_go_is_another_by_now(ordeal: Ordeal) -> None:
    """Fault 10, S8: while nothing is heard of nodes, the Node is deleted and registers anew, with a pod on it."""
    stage, rules, tainting = ordeal.stage, ordeal.rules, Hold()
    await stage.group(maxNodes=1, desiredNodes=1, scaleDownPolicy=QUICK)
    async with ordeal.life() as running:
        await stage.settled(1)
        (node,) = await stage.nodes()
        held = rules.add(on("patch", "nodes", name=node.name), tainting, times=1)
        await stage.change(desiredNodes=0)
        await eventually(lambda: held.struck, "the taint is on its way")
        async with gap(ordeal, running, "nodes", "pods"):
            other = await _registers_anew(ordeal, node)
            tainting.released.set()
            await eventually(lambda: [one for one in ordeal.record.of(on("patch", "nodes")) if one.sent], "it arrives")
        await eventually(lambda: _serves(ordeal, other), "the other serves on")
        await stage.event("ScaleDownBlocked", saying="no controller")
    assert not [one for one in ordeal.record if one.call.destroys]


async def test_a_group_is_another_by_now_and_one_comes_and_goes(ordeal: Ordeal) -> None:
    """Fault 10, L1: the nodes of the group that is gone go with it, its namesake has nodes of its own, the brief one never any."""
    stage = ordeal.stage
    group = await stage.group(minNodes=1, maxNodes=1)
    async with ordeal.life() as running:
        await stage.settled(1)
        (old,) = await stage.members()
        async with gap(ordeal, running, "nodegroups"):
            await stage.client.delete(NODE_GROUPS, stage.namespace, group.name, uid=group.uid)
            await eventually(lambda: _no_group(ordeal, group.name), "the group is gone")
            await stage.group(minNodes=1, maxNodes=1)
            brief = await stage.group("brief", minNodes=1)
            await stage.client.delete(NODE_GROUPS, stage.namespace, brief.name, uid=brief.uid)
        await eventually(lambda: _replaced(ordeal, old.uid), "the new group has a node of its own", seconds=180)
        await stage.settled(1)
    made = [one.call for one in ordeal.record.of(on("create", "vpsienodes")) if one.applied]
    assert not any("brief" in str(call.json["metadata"]) for call in made)
    await ordeal.was_safe(most=2)


# ── what happens meanwhile ───────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def gap(ordeal: Ordeal, running: Running, *kinds: str) -> AsyncIterator[None]:
    """Nothing is heard of these kinds, neither by watching nor by listing, until the end."""
    refused: Fault = Answer(answers.unavailable)
    closed = [ordeal.rules.add(on("list watch", kind), refused) for kind in kinds]
    for kind in kinds:
        ordeal.link("one").drop(on("watch", kind))
    await eventually(lambda: all(rule.struck for rule in closed), "the watches are tried again")
    yield
    ordeal.rules.drop(*closed)
    await eventually(lambda: not running.operator.view.stale, "all is heard again")


async def _registers_anew(ordeal: Ordeal, node: Node) -> Node:
    """As a kubelet does whose Node someone deleted: the same name and machine, another UID."""
    client = ordeal.stage.client
    body = await client.read(f"{NODES.path()}/{node.name}")
    raw = json.loads(body)
    await client.delete(NODES, "", node.name, uid=node.uid)
    kept = {key: raw["metadata"][key] for key in ("name", "labels", "annotations")}
    spec = {key: raw["spec"][key] for key in ("providerID", "taints") if key in raw["spec"]}
    made = await client.create(NODES, "", {"metadata": kept, "spec": spec, "status": raw["status"]})
    pod = {
        "metadata": {"name": "late"},
        "spec": {"nodeName": made.name, "containers": [{"name": "main", "image": "example.org/none"}]},
    }
    await client.create(PODS, ordeal.stage.namespace, pod)
    return made


async def _serves(ordeal: Ordeal, node: Node) -> bool:
    found = await ordeal.stage.client.get(NODES, "", node.name)
    (member,) = await ordeal.stage.members()
    assert found.uid == node.uid
    return member.phase == "Ready" and not any(taint.key == DRAIN_TAINT for taint in found.spec.taints)


async def _no_group(ordeal: Ordeal, name: str) -> bool:
    try:
        await ordeal.stage.client.get(NODE_GROUPS, ordeal.stage.namespace, name)
    except NotFound:
        return True
    return False


async def _replaced(ordeal: Ordeal, old: str) -> bool:
    members = await ordeal.stage.members()
    return len(members) == 1 and members[0].uid != old
