"""Fault 6: reads are throttled or fail. As long as part of the view is missing, nothing is done; then everything is."""

from __future__ import annotations

import pytest

from tests.eventually import eventually
from tests.faults import answers, invariants
from tests.faults.faults import Answer, Fault, ResetAfter
from tests.faults.invariants import evictions
from tests.faults.rules import on, works
from tests.faults.runs import Run, config
from tests.faults.scene import Scene

TROUBLES = {
    "429": Answer(answers.throttled),
    "500": Answer(answers.internal_error),
    "503": Answer(answers.unavailable),
    "reset": ResetAfter(),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
async def test_lists_and_watches_fail_at_the_start(scene: Scene, trouble: Fault) -> None:
    await scene.deploy(leaving=1)
    lists = scene.rules.add(on("list"), trouble, times=6)
    watches = scene.rules.add(on("watch"), trouble, times=3)
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)
    await run.stop()
    assert (lists.struck, watches.struck) == (6, 3)
    invariants.all_of(scene)


@pytest.mark.parametrize("kind", ["nodes", "pods", "replicasets", "poddisruptionbudgets"])
async def test_one_kind_cannot_be_listed(scene: Scene, kind: str) -> None:
    """S12: what is known of the other kinds is not acted on while this one is missing."""
    await scene.deploy(leaving=1)
    broken = scene.rules.add(on("list", kind), Answer(answers.internal_error))
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    others = [store for store in run.operator.view.stores() if store.resource.plural != kind]
    await eventually(lambda: all(store.synced for store in others), "the other kinds are live")
    await run.look()
    assert scene.record.of(works) == []
    assert f"the view of {kind} is not live" in str(run.operator.not_ready())

    scene.rules.drop(broken)
    await scene.comes_to_rest(run)
    await run.stop()
    invariants.all_of(scene)


async def test_the_live_look_before_an_eviction_fails(scene: Scene) -> None:
    """S12: a pod that cannot be read right now is not asked to leave."""
    await scene.deploy(leaving=1)
    broken = scene.rules.add(on("get", "pods"), Answer(answers.internal_error))
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.record.until(lambda record: len(record.of(on("get", "pods"))) >= 2)
    await run.look()
    assert evictions(scene.record) == []
    scene.rules.drop(broken)
    await scene.comes_to_rest(run)
    await run.stop()
    invariants.all_of(scene)
