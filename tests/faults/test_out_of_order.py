"""Fault 11: kinds arrive out of order, events arrive twice, everything is listed again and again."""

from __future__ import annotations

import pytest

from tests.eventually import eventually
from tests.faults import invariants
from tests.faults.faults import EndWatch, HoldEvents, TellTwice
from tests.faults.rules import on
from tests.faults.runs import Run, config
from tests.faults.scene import Scene

KINDS = ("pods", "configmaps", "deployments", "replicasets", "nodes", "statefulsets", "poddisruptionbudgets")


@pytest.mark.parametrize("last", ["replicasets", "deployments", "pods", "nodes"])
async def test_one_kind_comes_last(scene: Scene, last: str) -> None:
    """Pods before their ReplicaSet, ReplicaSets before their Deployment, pods before their node: it comes right in the end."""
    held = HoldEvents()
    scene.rules.add(on("watch", last), held)
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await eventually(lambda: not run.operator.view.stale, "the view is live, and empty of what follows")
    pods = await scene.deploy()
    await run.look()
    await scene.ask_to_leave(pods[0])
    await run.look()
    held.released.set()
    await scene.comes_to_rest(run)
    await run.stop()
    invariants.all_of(scene)


async def test_everything_twice(scene: Scene) -> None:
    """L2: a doubled event changes nothing but the number of looks."""
    for kind in KINDS:
        scene.rules.add(on("watch", kind), TellTwice())
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    pods = await scene.deploy()
    await scene.ask_to_leave(pods[0])
    await scene.comes_to_rest(run)
    await run.stop()
    invariants.all_of(scene)


async def test_a_storm_of_lists(scene: Scene) -> None:
    """L2: every watch expires after its first event, twice: each kind is listed anew each time, and nothing is redone."""
    for kind in KINDS:
        scene.rules.add(on("watch", kind), EndWatch("expired", passing=1), times=2)
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    watched = invariants.NeverBackwards(run.operator.view)
    pods = await scene.deploy()
    await scene.ask_to_leave(pods[0])
    await scene.comes_to_rest(run)
    await run.stop()
    assert watched.violations == []
    assert len(scene.record.of(on("list", "pods"))) >= 3
    invariants.all_of(scene)
