"""What the operator sees is late, doubled, refused, old or wrong: faults 6, 7, 9, 10, 11, 12 and 18 on the real control plane."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from plimsoll.kube.codec import builtins
from plimsoll.kube.resources import NODES, PODS
from plimsoll.kube.types import Node
from tests.clocks import PushedClock
from tests.eventually import eventually
from tests.faults import answers
from tests.faults.calls import Call
from tests.faults.faults import Answer, Fault, Hold, HoldEvents, LateEvents, Lens, StaleList, TellTwice
from tests.faults.rules import on
from tests.nodegroups.live import Running
from tests.nodegroups.ordeal import LEAVING, QUICK, Ordeal

HOUR = timedelta(hours=1)


async def test_reads_are_refused_and_events_come_twice_and_in_the_wrong_order(ordeal: Ordeal) -> None:
    """Faults 6 and 11: every kind of refusal on reads; nodes are heard of a second after the pods that are bound to them."""
    stage, rules = ordeal.stage, ordeal.rules
    rules.add(on("watch"), TellTwice())
    rules.add(on("watch", "nodes"), LateEvents(1.0))
    for refusal in (answers.throttled, answers.internal_error, answers.unavailable):
        rules.add(on("get list"), Answer(refusal), skip=2, times=4)
    await stage.group(minNodes=1, maxNodes=4, scaleDownPolicy=QUICK)
    await stage.workload("web", 4)
    async with ordeal.life() as running:
        await stage.settled(2, pods=4)
        await stage.scale("web", 1)
        await stage.settled(1, pods=1)
        await ordeal.quiet(running)
    await ordeal.was_safe(least=1, most=4)


async def test_a_pod_that_the_watch_is_silent_about(ordeal: Ordeal) -> None:
    """Faults 7 and 12: it is bound after the node looked empty and before it is tainted, and no event tells of it."""
    stage, rules = ordeal.stage, ordeal.rules
    silent, tainting = HoldEvents(), Hold()
    rules.add(on("watch", "pods"), silent)
    await stage.group(maxNodes=1, desiredNodes=1, scaleDownPolicy=QUICK)
    async with ordeal.life():
        await stage.settled(1)
        (node,) = await stage.nodes()
        held = rules.add(on("patch", "nodes", name=node.name), tainting, times=1)
        await stage.change(desiredNodes=0)
        await eventually(lambda: held.struck, "the taint is on its way")
        await _bind(ordeal, node)
        tainting.released.set()
        await eventually(lambda: _withdrawn(ordeal), "the last look, live, finds the pod")
        assert len(await stage.nodes()) == 1
        silent.released.set()
        await eventually(lambda: _serves(ordeal, node), "the node serves on")
        assert "no controller" in (await stage.event("ScaleDownBlocked")).note
    await ordeal.was_safe(most=1)


async def test_a_node_that_comes_back_under_its_name(ordeal: Ordeal) -> None:
    """Fault 10: what was tainted and checked is another node by now; its machine stays."""
    stage, rules = ordeal.stage, ordeal.rules
    clock, silent = PushedClock(), HoldEvents()
    await stage.group(maxNodes=1, desiredNodes=1, scaleDownPolicy=QUICK)
    async with ordeal.life(clock=clock, taint_wait=HOUR) as running:
        await stage.settled(1)
        await stage.change(desiredNodes=0)
        node = await eventually(lambda: _tainted(ordeal), "the taint")
        await eventually(lambda: _sees_taint(running, node), "the view has it, too")
        rules.add(on("watch", "nodes"), silent)
        mark = len(ordeal.record)
        ordeal.link("one").drop(on("watch", "nodes"))
        await eventually(lambda: ordeal.record.of(on("watch", "nodes"), since=mark), "another watch, which is silent")
        body = dict(builtins(await stage.client.get(NODES, "", node.name)))
        await stage.client.delete(NODES, "", node.name, uid=node.uid)
        await stage.client.create(NODES, "", _anew(body))
        await _bind(ordeal, node)
        clock.wall_offset = 2 * HOUR
        await eventually(lambda: _withdrawn(ordeal), "the last look, live, finds another node")
        silent.released.set()
        await eventually(lambda: _serves(ordeal, node), "it serves")
    assert [one.uid for one in await stage.nodes()] != [node.uid]


async def test_a_restart_onto_a_server_that_lags_behind(ordeal: Ordeal) -> None:
    """Fault 9: the lists of the new process are from before the node had a pod."""
    stage, rules = ordeal.stage, ordeal.rules
    await stage.group(maxNodes=1, desiredNodes=1, scaleDownPolicy=QUICK)
    async with ordeal.life("first"):
        await stage.settled(1)
    (node,) = await stage.nodes()
    old = (await stage.client.list(PODS, stage.namespace)).resource_version
    await _bind(ordeal, node)
    await stage.change(desiredNodes=0)
    rules.add(lambda call: call.link == "second", StaleList(old))
    async with ordeal.life("second"):
        assert "no controller" in (await stage.event("ScaleDownBlocked")).note
        assert [one.uid for one in await stage.nodes()] == [node.uid]
    assert not any(one.call.destroys for one in ordeal.record if one.call.link == "second")
    await ordeal.was_safe(most=1)


def _unready(node: dict[str, Any]) -> dict[str, Any]:
    conditions = [{**one, "status": "False"} for one in node["status"]["conditions"] if one["type"] == "Ready"]
    return {**node, "status": {**node["status"], "conditions": conditions}}


def _nothing(_: dict[str, Any]) -> None:
    return None


@pytest.mark.parametrize(
    "fault", [Lens(_unready), Lens(_nothing), Answer(answers.forbidden)], ids=["unready", "empty", "forbidden"]
)
async def test_nodes_of_which_nothing_is_known(ordeal: Ordeal, fault: Fault) -> None:
    """Fault 18: all are not ready, none is there, or they may not be read. Nothing is removed, though all of them might go."""
    stage = ordeal.stage
    await stage.group(maxNodes=5, desiredNodes=4, scaleDownPolicy=QUICK)
    async with ordeal.life("first"):
        await stage.settled(4)
    await stage.change(desiredNodes=0)
    rule = ordeal.rules.add(_of_the_view, fault)
    second = timedelta(seconds=1)
    async with ordeal.life("second", unready_timeout=second, joining_timeout=second) as running:
        if isinstance(fault, Lens):
            decided = "plimsoll_reconcile_seconds_count"
            await eventually(lambda: running.counted(decided, controller="nodegroups") >= 60, "it has looked often")
        else:
            await eventually(lambda: rule.struck >= 3, "it was refused again and again")
            assert "nodes" in (running.operator.not_ready() or "")
        assert len(await stage.nodes()) == 4
        assert not [one for one in ordeal.record if one.call.destroys and one.call.link == "second"]
    ordeal.rules.drop()
    async with ordeal.life("third"):
        await stage.settled(0)
    await ordeal.was_safe()


def _of_the_view(call: Call) -> bool:
    """The operator's own reads of nodes; what the provider lists is its own affair."""
    return call.resource == "nodes" and call.verb in ("get", "list", "watch") and "labelSelector" not in call.params


# ── what happens meanwhile ───────────────────────────────────────────────────────────────────────────────────────────


async def _bind(ordeal: Ordeal, node: Node) -> None:
    """A pod that names its node itself, past every scheduler."""
    pod = {
        "metadata": {"name": "late"},
        "spec": {"nodeName": node.name, "containers": [{"name": "main", "image": "example.org/none"}]},
    }
    await ordeal.stage.client.create(PODS, ordeal.stage.namespace, pod)


def _withdrawn(ordeal: Ordeal) -> bool:
    """The node was about to be given back, and is not: what was written down is taken back."""
    phases = [
        (one.call.json.get("status") or {}).get("phase")
        for one in ordeal.record
        if one.call.sort == "patch vpsienodes/status" and one.applied
    ]
    return "Terminating" in phases[phases.index("Deleting") :] if "Deleting" in phases else False


async def _tainted(ordeal: Ordeal) -> Node | None:
    nodes = await ordeal.stage.nodes()
    return next((node for node in nodes if any(taint.key == LEAVING for taint in node.spec.taints)), None)


def _sees_taint(running: Running, node: Node) -> bool:
    seen = running.operator.view[NODES].get("", node.name)
    return seen is not None and any(taint.key == LEAVING for taint in seen.spec.taints)


async def _serves(ordeal: Ordeal, node: Node) -> bool:
    found = await ordeal.stage.client.get(NODES, "", node.name)
    (member,) = await ordeal.stage.members()
    return member.phase == "Ready" and not any(taint.key == LEAVING for taint in found.spec.taints)


def _anew(body: dict[str, Any]) -> dict[str, Any]:
    meta = body["metadata"]
    kept = {"name": meta["name"], "labels": meta["labels"], "annotations": meta.get("annotations", {})}
    taints = [taint for taint in body["spec"].get("taints", []) if taint["key"] != LEAVING]
    return {"metadata": kept, "spec": {"taints": taints, "providerID": body["spec"].get("providerID", "")}}
