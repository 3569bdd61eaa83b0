"""Random hours with the operator at work: what must never be is looked for at every change, and in the end all is right."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from plimsoll.placement.distribution import Share, target
from plimsoll.placement.spec import ENABLED, MIN_ON_DEMAND, SPOT_PERCENTAGE
from plimsoll.sim.api import kinds
from plimsoll.sim.api.documents import Json, at, condition, name_of, terminating
from plimsoll.sim.api.storage import Change
from plimsoll.sim.cluster import Cluster
from tests.sim.operated import operated, settings
from tests.sim.scene import by_label, deployment, patch, pods, ready_pods, virtually

CLASS = "karpenter.sh/capacity-type"
APPS = ("web", "api")
NODES = tuple(f"2 zone={zone} class={kind} cpu=8" for zone in "abc" for kind in ("spot", "on-demand"))


class Watcher:
    """Looks at every change of a pod: an eviction takes neither the last ready replica, nor a second one at the same time."""

    def __init__(self, made: Cluster) -> None:
        self.made = made
        self.evicted = 0
        self.broken: list[str] = []
        made.api.storage.collection(kinds.PODS).listeners.append(self._changed)

    def _changed(self, change: Change) -> None:
        if change.type == "DELETED" or not _is_evicted(change.object) or (change.before and _is_evicted(change.before)):
            return
        self.evicted += 1
        app, name = at(change.object, "metadata", "labels", "app"), name_of(change.object)
        others = [pod for pod in ready_pods(self.made, app) if name_of(pod) != name]
        if not others and at(change.object, "status", "phase") == "Running":
            self.broken.append(f"{name}: the last ready replica was evicted")
        mine = [pod for pod in self.made.all(kinds.PODS) if at(pod, "metadata", "labels", "app") == app]
        leaving = [name_of(pod) for pod in mine if _is_evicted(pod) and at(pod, "status", "phase") == "Running"]
        if len(leaving) > 1:
            self.broken.append(f"{leaving}: evicted at the same time")


def _is_evicted(pod: Json) -> bool:
    found = condition(pod, "DisruptionTarget")
    return found is not None and found["status"] == "True"


async def _happen(made: Cluster, wanted: dict[str, dict[str, int]], rng: Random) -> None:
    app = rng.choice(APPS)
    match rng.choice(["scaled", "asked", "lost", "reclaimed", "rolled out", "cordoned"]):
        case "scaled":
            wanted[app]["replicas"] = rng.randint(4, 12)
            await patch(made, kinds.DEPLOYMENTS, app, {"spec": {"replicas": wanted[app]["replicas"]}})
        case "asked":
            wanted[app] |= {"percentage": rng.choice((0, 30, 50, 70, 100)), "minimum": rng.randint(0, 3)}
            await patch(made, kinds.DEPLOYMENTS, app, {"metadata": {"annotations": _asking(wanted[app])}})
        case "lost":
            made.api.objects.delete(kinds.PODS, "default", name_of(rng.choice(pods(made, app))), {})
        case "reclaimed":
            spot = [node for node in made.all(kinds.NODES) if at(node, "metadata", "labels", CLASS) == "spot"]
            gone = rng.choice(spot)
            made.reclaim(name_of(gone), notice_seconds=120)
            await asyncio.sleep(rng.uniform(60, 240))
            await made.add_nodes(
                f"1 zone={at(gone, 'metadata', 'labels', 'topology.kubernetes.io/zone')} class=spot cpu=8"
            )
        case "rolled out":
            version = {"metadata": {"annotations": {"version": str(rng.random())}}}
            await patch(made, kinds.DEPLOYMENTS, app, {"spec": {"template": version}})
        case "cordoned":
            node = name_of(rng.choice(made.all(kinds.NODES)))
            if made.api.storage.node(node) is not None:
                await patch(made, kinds.NODES, node, {"spec": {"unschedulable": True}})
            await asyncio.sleep(rng.uniform(60, 600))
            if made.api.storage.node(node) is not None:
                await patch(made, kinds.NODES, node, {"spec": {"unschedulable": None}})


def _asking(wanted: dict[str, int]) -> dict[str, str]:
    return {ENABLED: "true", SPOT_PERCENTAGE: f"{wanted['percentage']}%", MIN_ON_DEMAND: str(wanted["minimum"])}


@virtually
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_hours_of_everything(seed: int) -> None:
    assert await _live(seed, events=8), "a history in which nothing was moved shows nothing"


@pytest.mark.soak
@virtually
@pytest.mark.parametrize("seed", range(100, 150))
async def test_days_of_everything(seed: int) -> None:
    await _live(seed, events=80)


async def _live(seed: int, *, events: int) -> int:
    """A history, checked; how many pods the operator evicted in it."""
    rng = Random(seed)
    wanted = {app: {"replicas": 6, "percentage": 50, "minimum": 1} for app in APPS}
    async with operated(NODES, settings(), seed=seed) as (made, operator):
        watcher = Watcher(made)
        for app in APPS:
            body: dict[str, Any] = deployment(app, replicas=6)
            body["metadata"]["annotations"] = _asking(wanted[app])
            await made.create(kinds.DEPLOYMENTS, body)
        await asyncio.sleep(60)
        for _ in range(events):
            await _happen(made, wanted, rng)
            await asyncio.sleep(rng.uniform(1, 900))
        await asyncio.sleep(3600)
        for app, asked in wanted.items():
            aim = target(asked["replicas"], Share(asked["minimum"], asked["percentage"]))
            found = by_label(made, ready_pods(made, app), CLASS)
            assert (found["spot"], found["on-demand"]) == (aim.spot, aim.on_demand), f"{app} asked for {asked}"
            assert not [pod for pod in pods(made, app) if terminating(pod)]
        assert watcher.broken == []
        assert operator.not_ready() is None
        return watcher.evicted
