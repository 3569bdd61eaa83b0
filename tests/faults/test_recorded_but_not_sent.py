"""Faults 1 and 13 at the worst moment: a disruption is recorded, and its eviction is never sent or arrives very late."""

from __future__ import annotations

from plimsoll.disruption.ledger import UNDER_WAY_SECONDS
from tests.clocks import PushedClock
from tests.eventually import eventually
from tests.faults import invariants
from tests.faults.example import LEAVE
from tests.faults.faults import CrashBefore, Hold
from tests.faults.invariants import evictions
from tests.faults.rules import on
from tests.faults.runs import Run, config
from tests.faults.scene import Scene

EVICT = on("create", "pods/eviction")


async def test_another_pod_waits_for_what_may_still_arrive(scene: Scene) -> None:
    """S4: the eviction of the first life is still on its way when the second life is asked for another pod."""
    pods = await scene.deploy(leaving=1)
    late = Hold()
    scene.rules.add(on("create", "pods/eviction", link="first"), late)
    first = await Run.start(scene.proxy, "first", config(scene.namespace))
    await scene.record.until(lambda record: len(evictions(record)) == 1)
    first._task.cancel()  # the process is gone, what it has sent is not
    await first.exit_code()

    await scene.annotate("pods", pods[0]["metadata"]["name"], {LEAVE: None})
    await scene.ask_to_leave(pods[1])
    second = await Run.start(scene.proxy, "second", config(scene.namespace))
    await eventually(lambda: second.metric("plimsoll_blocked", code="OwnerDisrupted") == 1, "it waits, and says so")
    late.released.set()
    await scene.comes_to_rest(second)
    await second.stop()
    assert [one.call.name for one in evictions(scene.record) if one.applied] == [
        pods[0]["metadata"]["name"],
        pods[1]["metadata"]["name"],
    ]
    invariants.all_of(scene)


async def test_what_was_never_sent_does_not_block_for_ever(scene: Scene) -> None:
    """L1: the eviction was written down and never sent, and nobody wants it any more. In time it stops counting."""
    pods = await scene.deploy(leaving=1)
    scene.rules.add(EVICT, CrashBefore(), times=1)
    first = await Run.start(scene.proxy, "first", config(scene.namespace))
    await first.exit_code()
    assert [one.sent for one in evictions(scene.record)] == [False]

    await scene.annotate("pods", pods[0]["metadata"]["name"], {LEAVE: None})
    await scene.ask_to_leave(pods[1])
    clock = PushedClock()
    second = await Run.start(scene.proxy, "second", config(scene.namespace), clock=clock)
    await eventually(lambda: second.metric("plimsoll_blocked", code="OwnerDisrupted") == 1, "it waits, and says so")
    clock.push(UNDER_WAY_SECONDS)
    await second.look()
    await scene.comes_to_rest(second)
    await second.stop()
    invariants.all_of(scene)
