"""Without faults: the example controller brings the cluster where it should be, and then writes nothing more."""

from __future__ import annotations

import pytest

from plimsoll.runtime.exit_codes import ExitCode
from tests.eventually import eventually
from tests.faults import invariants
from tests.faults.runs import Run, config
from tests.faults.scene import Scene


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
async def test_the_example_works_and_comes_to_rest(scene: Scene, kind: str) -> None:
    await scene.deploy(kind=kind, leaving=2)
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)
    await scene.let_go()
    await eventually(scene.reached)
    assert await run.stop() is ExitCode.STOPPED
    await scene.history.caught_up()
    invariants.all_of(scene)
    assert len(invariants.evictions(scene.record)) == 2
