"""What the operator sees is late, doubled, refused or old: faults 6, 7, 9, 11 and 12 on the real control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from plimsoll.kube.types.core import Node
from plimsoll.kube.types.resources import NODES, PODS
from tests.eventually import eventually
from tests.faults import answers
from tests.faults.faults import Answer, Hold, HoldEvents, LateEvents, StaleList, TellTwice
from tests.faults.rules import on
from tests.nodegroups.live import Running
from tests.nodegroups.ordeal import DRAIN_TAINT, QUICK, Ordeal

REFUSALS = (answers.throttled, answers.internal_error, answers.unavailable)


async def test_reads_are_refused_and_events_come_twice_and_in_the_wrong_order(ordeal: Ordeal) -> None:
    """Faults 6 and 11: every kind of refusal on reads; nodes are heard of after the pods that are bound to them."""
    refused = [ordeal.rules.add(on("get list"), Answer(refusal), skip=2, times=1) for refusal in REFUSALS]
    async with _up_and_down(ordeal, late_seconds=0.5):
        assert all(rule.struck for rule in refused)
    await ordeal.was_safe(least=1, most=4)


@pytest.mark.soak  # a look at what is settled comes every half minute, and three of them must change nothing
async def test_refused_more_often_and_then_nothing_more_is_written(ordeal: Ordeal) -> None:
    for refusal in REFUSALS:
        ordeal.rules.add(on("get list"), Answer(refusal), skip=2, times=4)
    async with _up_and_down(ordeal, late_seconds=1.0) as running:
        await ordeal.quiet(running)
    await ordeal.was_safe(least=1, most=4)


@asynccontextmanager
async def _up_and_down(ordeal: Ordeal, *, late_seconds: float) -> AsyncIterator[Running]:
    stage = ordeal.stage
    ordeal.rules.add(on("watch"), TellTwice())
    ordeal.rules.add(on("watch", "nodes"), LateEvents(late_seconds))
    await stage.group(minNodes=1, maxNodes=4, scaleDownPolicy=QUICK)
    await stage.workload("web", 4)
    async with ordeal.life() as running:
        await stage.settled(2, pods=4)
        await stage.scale("web", 1)
        await stage.settled(1, pods=1)
        yield running


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
        await stage.event("ScaleDownBlocked", saying="no controller")
    await ordeal.was_safe(most=1)


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
        await stage.event("ScaleDownBlocked", saying="no controller")
        assert [one.uid for one in await stage.nodes()] == [node.uid]
    assert not any(one.call.destroys for one in ordeal.record if one.call.link == "second")
    await ordeal.was_safe(most=1)


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


async def _serves(ordeal: Ordeal, node: Node) -> bool:
    found = await ordeal.stage.client.get(NODES, "", node.name)
    (member,) = await ordeal.stage.members()
    return member.phase == "Ready" and not any(taint.key == DRAIN_TAINT for taint in found.spec.taints)
