"""Fault 13: the leader is stopped beyond its lease in the midst of its work, another takes over, the first one wakes up."""

from __future__ import annotations

from plimsoll.runtime.exit_codes import ExitCode
from tests.eventually import eventually
from tests.faults import invariants
from tests.faults.faults import CrashAfter, Hold
from tests.faults.invariants import evictions, holder_of
from tests.faults.processes import OperatorProcess
from tests.faults.rules import Rule, on
from tests.faults.runs import SHORT_LEASE, Run, config
from tests.faults.scene import Scene


async def _holder(scene: Scene) -> str:
    return holder_of(await scene.find("coordination.k8s.io/v1/leases", SHORT_LEASE.lease_name))


async def _another_than(scene: Scene, former: str) -> bool:
    return await _holder(scene) not in ("", former)


async def _take_over(scene: Scene, first: OperatorProcess, held: Rule) -> Run:
    """The first operator is stopped with a request of its own on the way; the second one becomes the leader."""
    await eventually(lambda: first.check_alive() and held.struck, "the first operator is in the midst of its work")
    former = await _holder(scene)
    first.pause()
    second = await Run.start(scene.proxy, "second", config(scene.namespace, election=SHORT_LEASE))
    await eventually(lambda: _another_than(scene, former), "the second operator leads")
    return second


async def test_an_eviction_of_the_former_leader_arrives_late(scene: Scene) -> None:
    """S4, S8, S9: by then its pod is gone and a namesake has its name. The server refuses, because it was told the UID."""
    await scene.deploy(kind="StatefulSet", leaving=2)
    late = Hold()
    held = scene.rules.add(on("create", "pods/eviction", link="first"), late)
    async with await OperatorProcess.start(scene.proxy, "first", scene.namespace) as first:
        second = await _take_over(scene, first, held)
        await scene.comes_to_rest(second)
        mark = len(scene.record)
        first.resume()
        assert await first.exit_code() == ExitCode.LEADERSHIP_LOST
    late.released.set()
    await scene.record.until(lambda record: all(one.sent for one in evictions(record)))
    await scene.comes_to_rest(second)
    await second.stop()

    (arrived,) = [one for one in evictions(scene.record) if one.call.link == "first"]
    assert arrived.answered == 409
    assert scene.record.works(since=mark) == []
    invariants.all_of(scene)


async def test_a_patch_of_the_former_leader_arrives_late(scene: Scene) -> None:
    """S3, S9: the pod was marked by the new leader meanwhile; the late patch insists on a version that is past."""
    await scene.deploy()
    late = Hold()
    held = scene.rules.add(on("patch", "pods", link="first"), late)
    async with await OperatorProcess.start(scene.proxy, "first", scene.namespace) as first:
        second = await _take_over(scene, first, held)
        await scene.comes_to_rest(second)
        first.resume()
        assert await first.exit_code() == ExitCode.LEADERSHIP_LOST
    late.released.set()
    await scene.record.until(lambda record: all(one.sent for one in record.works()))
    await scene.comes_to_rest(second)
    await second.stop()

    arrived = [one for one in scene.record.works() if one.call.link == "first" and one.call.verb == "patch"]
    assert {one.answered for one in arrived} == {409}
    invariants.all_of(scene)


async def test_the_former_leader_learns_on_waking_what_it_wanted_to_know(scene: Scene) -> None:
    """S9: it was stopped while it looked at the pod once more. What it then reads is true, and it may not act on it."""
    await scene.deploy(leaving=2)
    late = Hold()
    held = scene.rules.add(on("get", "pods", link="first"), late)
    async with await OperatorProcess.start(scene.proxy, "first", scene.namespace) as first:
        second = await _take_over(scene, first, held)
        mark = len(scene.record)
        late.released.set()
        await scene.record.until(lambda record: all(one.ended for one in record.of(on("get", "pods", link="first"))))
        first.resume()
        await scene.record.until(lambda record: bool(record.of(on("get", "leases", link="first"), since=mark)))
        await scene.comes_to_rest(second)
    await second.stop()

    assert [one for one in scene.record.works(since=mark) if one.call.link == "first"] == []
    assert {one.call.link for one in evictions(scene.record)} == {"second"}
    invariants.all_of(scene)


async def test_a_leader_that_is_killed_is_followed(scene: Scene) -> None:
    """Faults 1 and 2 with kill -9 and a lease that nobody gives back: the next one waits for its end, then goes on."""
    await scene.deploy(leaving=2)
    struck = scene.rules.add(on("create", "pods/eviction", link="first"), CrashAfter(), times=1)
    async with await OperatorProcess.start(scene.proxy, "first", scene.namespace) as first:
        assert await first.exit_code() == -9
        second = await Run.start(scene.proxy, "second", config(scene.namespace, election=SHORT_LEASE))
        await scene.comes_to_rest(second)
    await second.stop()
    assert struck.struck == 1
    invariants.all_of(scene)


async def test_a_leader_that_is_told_to_stop_hands_over(scene: Scene) -> None:
    await scene.deploy()
    async with await OperatorProcess.start(scene.proxy, "first", scene.namespace) as first:
        await eventually(scene.reached)
        assert await first.stop() == ExitCode.STOPPED
        assert await _holder(scene) == "", "the lease is given back at once"
