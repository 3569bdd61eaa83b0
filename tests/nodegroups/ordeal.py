"""Node groups behind a proxy that lets faults strike, with every revision of the store kept and judged afterwards."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from plimsoll.config import Config, LeaderElectionConfig
from plimsoll.controllers.nodegroups.types import VPSIE_NODES
from tests.eventually import eventually
from tests.faults.history import History, Revision, State
from tests.faults.proxy import Link, Proxy
from tests.faults.record import Record
from tests.faults.rules import Rules
from tests.faults.upstream import Direct, Json, Upstream
from tests.nodegroups.live import Running, Stage, config, operating
from tests.rbac.everywhere import kubeconfig_of_the_operator
from tools.controlplane.cluster import ControlPlane

ALONE = LeaderElectionConfig(enabled=False)  # whatever is cut off from the server does not lead; two of them both do
QUICK = {"underutilizationDuration": "1s", "cooldownSeconds": 1}
DRAIN_TAINT = "plimsoll.dev/leaving"
KEY = "plimsoll.dev/machine-key"
NODE_PATH = "/api/v1/nodes"
GONE = ("Terminating", "Deleting", "Failed")


class Ordeal:
    def __init__(
        self, cluster: ControlPlane, stage: Stage, rules: Rules, record: Record, proxy: Proxy, history: History
    ) -> None:
        self.cluster, self.stage, self.rules, self.record = cluster, stage, rules, record
        self.proxy, self.history = proxy, history
        self._links: dict[str, Link] = {}

    @asynccontextmanager
    async def life(self, name: str = "one", settings: Config | None = None, **changed: Any) -> AsyncIterator[Running]:
        """An operator behind a link of its own; the link's `crash` ends it as kill -9 would."""
        link = self._links[name] = await self.proxy.link(name)
        settings = settings or config(self.stage.namespace, election=ALONE)
        async with operating(self.cluster, settings, kubeconfig=link.kubeconfig, name=name, **changed) as running:
            link.on_crash = running.life.cancel
            running.crashed = link.crashed
            yield running

    def link(self, name: str) -> Link:
        return self._links[name]

    async def lives(self, until: Any, **changed: Any) -> int:
        """One operator after the other, each until it crashes, until the condition holds; how many crashed."""
        for number in range(40):
            async with self.life(f"life-{len(self.record)}-{number}", **changed) as running:
                reached = asyncio.ensure_future(until())
                crashed = asyncio.ensure_future(running.crashed.wait())
                await asyncio.wait((reached, crashed), return_when=asyncio.FIRST_COMPLETED)
                crashed.cancel()
                if reached.done():
                    await reached
                    return number
                reached.cancel()
                await asyncio.gather(reached, return_exceptions=True)
        raise AssertionError("it crashes without end")

    async def quiet(self, running: Running) -> None:
        """L2: what is settled stays so, and nothing more is written over several looks at it."""
        looked = {"name": "plimsoll_decisions_total", "controller": "nodegroups", "reason": "Settled"}
        name = looked.pop("name")

        async def nothing_written() -> bool:
            mark, before = len(self.record), running.counted(name, **looked)
            await eventually(lambda: running.counted(name, **looked) >= before + 3, "three looks")
            return not self.record.works(since=mark)

        await eventually(nothing_written, "nothing more is written")

    async def was_safe(self, *, least: int = 0, most: int = 5) -> None:
        """S6, S7, S8 and S10 at every revision, L4 at the end."""
        await self.history.caught_up()
        judge = _Judge(self.stage.namespace, least, most)
        before: State = {}
        for revision, state in self.history.states():
            judge.look(revision, before, state)
            before = dict(state)
        for one in self.record:
            if one.call.destroys and one.sent:
                assert one.call.required_uid, f"S8: {one}"
        for place, item in before.items():
            assert not (place[0] == NODE_PATH and judge.ours(item) and _tainted(item)), f"L4: {place}"


class _Judge:
    def __init__(self, namespace: str, least: int, most: int) -> None:
        self.namespace, self.least, self.most = namespace, least, most
        self.made: Counter[str] = Counter()
        self.reached = False  # the minimum holds from when it was first reached

    def ours(self, node: Json) -> bool:
        return any(taint.get("value") == self.namespace for taint in node["spec"].get("taints") or ())

    def look(self, revision: Revision, before: State, state: State) -> None:
        item = revision.object
        if revision.collection == NODE_PATH and self.ours(item):
            key = item["metadata"]["labels"].get(KEY, "")
            if revision.change == "ADDED" and key:
                self.made[key] += 1
                assert self.made[key] == 1, f"S10: {self.made[key]} machines were made for one need: {revision}"
            if revision.change == "DELETED":
                self._removed(item, before)
        members = [one for (kind, _, _), one in state.items() if kind == VPSIE_NODES.path(self.namespace)]
        there = {one["metadata"]["name"] for one in members if not _leaves(one)}
        # What the provider has, without what is on its way out. A machine has the name of its VPSieNode.
        machines = [one for (kind, _, _), one in state.items() if kind == NODE_PATH and self.ours(one)]
        remaining = [one for one in machines if one["metadata"]["name"] in there]
        self.reached = self.reached or len(remaining) >= self.least
        assert len(remaining) <= self.most, f"S7: {len(remaining)} nodes at {revision}"
        assert not self.reached or len(remaining) >= self.least, f"S7: only {len(remaining)} nodes at {revision}"

    def _removed(self, node: Json, before: State) -> None:
        name = node["metadata"]["name"]
        assert _tainted(node), f"S6: node {name} went without a taint"
        for (kind, _, _), pod in before.items():
            if kind.endswith("/pods") and pod["spec"].get("nodeName") == name:
                finished = pod["status"].get("phase") in ("Succeeded", "Failed")
                assert finished, f"S6: node {name} went with pod {pod['metadata']['name']} on it"


def _tainted(node: Json) -> bool:
    return any(taint["key"] == DRAIN_TAINT for taint in node["spec"].get("taints") or ())


def _leaves(member: Json) -> bool:
    return "deletionTimestamp" in member["metadata"] or (member.get("status") or {}).get("phase") in GONE


@asynccontextmanager
async def ordeals(cluster: ControlPlane, stage: Stage, directory: Path) -> AsyncIterator[Ordeal]:
    rules, record = Rules(), Record()
    upstream = Upstream.from_kubeconfig(cluster.kubeconfig)
    account = kubeconfig_of_the_operator(cluster, config(stage.namespace))
    watched = [NODE_PATH, VPSIE_NODES.path(stage.namespace), f"/api/v1/namespaces/{stage.namespace}/pods"]
    async with (
        Proxy(Upstream.from_kubeconfig(account), record, [rules], directory) as proxy,
        Direct(upstream) as direct,
        History(direct, watched) as history,
    ):
        try:
            yield Ordeal(cluster, stage, rules, record, proxy, history)
        except BaseException as error:
            error.add_note(f"the requests were:\n{str(record)[-12000:]}")
            raise
