"""Crashes and lost replies at every sort of write, between the operator and the real API server: faults 1, 2 and 3."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plimsoll.config import LeaderElectionConfig
from plimsoll.kube.types.resources import NODES
from tests.faults.answers import timed_out
from tests.faults.calls import Call
from tests.faults.faults import CrashAfter, CrashBefore, Fault, Misreport, ResetAfter
from tests.faults.proxy import Proxy
from tests.faults.record import Record
from tests.faults.rules import Rules
from tests.faults.upstream import Upstream
from tests.nodegroups.live import Stage, config, operating
from tools.controlplane.cluster import ControlPlane

ALONE = LeaderElectionConfig(enabled=False)  # one process at a time: what is cut off from the server does not lead
QUICK = {"underutilizationDuration": "1s", "cooldownSeconds": 1}
# What the operator does to its own objects and to nodes; the provider's own writes are among those on nodes.
SORTS = ("nodegroups/status", "vpsienodes", "vpsienodes/status", "nodes", "pods/eviction")


class First:
    """The first write of each sort and object, once."""

    def __init__(self) -> None:
        self.struck: set[str] = set()

    def __call__(self, call: Call) -> bool:
        sort = f"{call.resource}/{call.subresource}" if call.subresource else call.resource
        what = f"{call.verb} {sort}"
        if not call.works or sort not in SORTS or what in self.struck:
            return False
        self.struck.add(what)
        return True


@asynccontextmanager
async def proxied(cluster: ControlPlane, rules: Rules, directory: Path) -> AsyncIterator[Proxy]:
    async with Proxy(Upstream.from_kubeconfig(cluster.kubeconfig), Record(), [rules], directory) as proxy:
        yield proxy


@pytest.mark.parametrize("fault", [ResetAfter(), Misreport(timed_out)], ids=["reset", "504"])
async def test_the_first_reply_to_each_sort_of_write_is_lost(
    control_plane: ControlPlane, stage: Stage, tmp_path: Path, fault: Fault
) -> None:
    """Applied each time; the operator hears nothing, or of a proxy that gave up waiting."""
    rules, first = Rules(), First()
    rules.add(first, fault)
    await stage.group(minNodes=1, maxNodes=4, scaleDownPolicy=QUICK)
    await stage.workload("web", 4)
    async with proxied(control_plane, rules, tmp_path) as proxy:
        link = await proxy.link("one")
        settings = config(stage.namespace, election=ALONE)
        async with operating(control_plane, settings, kubeconfig=link.kubeconfig):
            await stage.settled(2, pods=4)
            await stage.scale("web", 1)
            await stage.settled(1, pods=1)
    assert {"create vpsienodes", "create nodes", "delete vpsienodes", "patch vpsienodes/status"} <= first.struck
    await _nothing_left_over(stage, 1)


@pytest.mark.parametrize("fault", [CrashBefore(), CrashAfter()], ids=["before", "after"])
async def test_a_crash_at_the_first_of_each_sort_of_write(
    control_plane: ControlPlane, stage: Stage, tmp_path: Path, fault: Fault
) -> None:
    rules, first = Rules(), First()
    rules.add(first, fault)
    await stage.group(minNodes=1, maxNodes=4, scaleDownPolicy=QUICK)
    await stage.workload("web", 4)
    async with proxied(control_plane, rules, tmp_path) as proxy:

        async def until(nodes: int, pods: int) -> None:
            for number in range(20):
                link = await proxy.link(f"{nodes}-{number}")
                settings = config(stage.namespace, election=ALONE)
                async with operating(control_plane, settings, kubeconfig=link.kubeconfig) as running:
                    link.on_crash = running.life.cancel
                    settled = asyncio.ensure_future(stage.settled(nodes, pods=pods))
                    crashed = asyncio.ensure_future(link.crashed.wait())
                    await asyncio.wait((settled, crashed), return_when=asyncio.FIRST_COMPLETED)
                    if settled.done():
                        crashed.cancel()
                        await settled
                        return
                    settled.cancel()
                    await asyncio.gather(settled, return_exceptions=True)
            raise AssertionError("it crashes without end")

        await until(2, 4)
        await stage.scale("web", 1)
        await until(1, 1)
    assert len(first.struck) >= 5
    await _nothing_left_over(stage, 1)


async def _nothing_left_over(stage: Stage, nodes: int) -> None:
    """S10 and L4: as many machines as nodes, and no taint of ours."""
    listed = await stage.client.list(NODES, label_selector="plimsoll.dev/provider=kwok")
    own = [node for node in listed.items if any(taint.value == stage.namespace for taint in node.spec.taints)]
    assert len(own) == nodes
    assert not any(taint.key == "plimsoll.dev/leaving" for node in own for taint in node.spec.taints)
