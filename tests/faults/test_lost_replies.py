"""Fault 3: the write is applied and its reply is lost, by a reset or a gateway's 504. One need is still met once."""

from __future__ import annotations

import pytest

from tests.faults import answers, invariants
from tests.faults.calls import Call
from tests.faults.example import kept_name
from tests.faults.faults import Fault, Misreport, ResetAfter
from tests.faults.rules import on
from tests.faults.runs import Run, config
from tests.faults.scene import Scene

WRITES = ["create configmaps", "patch pods", "create pods/eviction", "delete configmaps"]


@pytest.mark.parametrize("fault", [ResetAfter(), Misreport(answers.timed_out)], ids=["reset", "504"])
@pytest.mark.parametrize("write", WRITES)
async def test_the_reply_to_a_write_is_lost(scene: Scene, write: str, fault: Fault) -> None:
    verb, resource = write.split()
    await scene.deploy(leaving=2)
    lost = scene.rules.add(on(verb, resource), fault, times=1)
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)
    await scene.let_go()
    await scene.comes_to_rest(run)
    await run.stop()

    assert lost.struck == 1
    invariants.all_of(scene)
    invariants.created_once(scene.history, scene.path("configmaps"), kept_name("web"))


async def test_every_reply_is_lost_once(scene: Scene) -> None:
    """Each object's write loses its first reply, not only the first write of all."""
    await scene.deploy(leaving=2)
    struck: set[str] = set()

    def first_of_each(call: Call) -> bool:
        what = f"{call.sort} {call.name}"
        if not call.works or what in struck:
            return False
        struck.add(what)
        return True

    scene.rules.add(first_of_each, ResetAfter())
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)
    await run.stop()

    assert len(struck) >= 7
    invariants.all_of(scene)
    invariants.created_once(scene.history, scene.path("configmaps"), kept_name("web"))
