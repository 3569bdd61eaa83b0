"""Fault 14: lease calls are slow while all others are fast; the lease is deleted or edited by hand."""

from __future__ import annotations

from tests.eventually import eventually
from tests.faults import invariants
from tests.faults.faults import Hold, SlowReply
from tests.faults.history import Revision
from tests.faults.invariants import holder_of
from tests.faults.record import Exchange
from tests.faults.rules import on
from tests.faults.runs import SHORT_LEASE, Run, config
from tests.faults.scene import Scene

LEASES = "coordination.k8s.io/v1/leases"


async def _two(scene: Scene) -> tuple[Run, Run]:
    """A leader that has done its first work, and a standby."""
    settings = config(scene.namespace, election=SHORT_LEASE)
    first = await Run.start(scene.proxy, "first", settings)
    await eventually(lambda: first.leads, "the first operator leads")
    await scene.comes_to_rest(first)
    second = await Run.start(scene.proxy, "second", settings)
    await eventually(lambda: not second.operator.view.stale, "the standby is live")
    return first, second


async def _stop(*runs: Run) -> None:
    for run in runs:
        await run.stop()


def _renewals(scene: Scene, link: str, *, since: int = 0) -> list[Exchange]:
    return [one for one in scene.record.of(on("patch", "leases", link=link), since=since) if one.applied]


def _tenures(scene: Scene) -> list[Revision]:
    """The revisions at which the lease got a holder."""
    found: list[Revision] = []
    holder = ""
    for revision in scene.history.revisions(scene.path(LEASES)):
        now = holder_of(revision.object) if revision.change != "DELETED" else ""
        if now and now != holder:
            found.append(revision)
        holder = now
    return found


async def test_slow_renewals_that_are_in_time_keep_the_lease(scene: Scene) -> None:
    pods = await scene.deploy()
    first, second = await _two(scene)
    mark = len(scene.record)
    scene.rules.add(on("get patch", "leases"), SlowReply(0.5))
    await scene.ask_to_leave(pods[0])
    await scene.record.until(lambda _: len(_renewals(scene, "first", since=mark)) >= 5)
    await scene.comes_to_rest(first)
    assert first.leads
    assert not second.leads
    assert len(_tenures(scene)) == 1
    await _stop(first, second)
    invariants.all_of(scene)


async def test_lease_calls_hang_and_all_others_are_fast(scene: Scene) -> None:
    """S9: the leader sees for itself that its time is up, before another may follow; what it has sent is harmless."""
    pods = await scene.deploy()
    first, second = await _two(scene)
    hanging = Hold()
    scene.rules.add(on("get patch create", "leases", link="first"), hanging)
    await scene.ask_to_leave(pods[0])
    await scene.ask_to_leave(pods[1])
    await eventually(lambda: second.leads, "the standby takes over")
    assert not first.leads
    mark = len(scene.record)
    await scene.ask_to_leave(pods[2])
    await scene.comes_to_rest(second)
    assert [one for one in scene.record.works(since=mark) if one.call.link == "first"] == []
    hanging.released.set()
    await scene.comes_to_rest(second)
    assert second.leads
    await _stop(first, second)
    invariants.all_of(scene)


async def test_the_lease_is_deleted(scene: Scene) -> None:
    """Someone tidies up. The next write to it makes it anew, and a tenure of its own begins."""
    pods = await scene.deploy()
    first, second = await _two(scene)
    await scene.direct.delete(scene.path(LEASES, SHORT_LEASE.lease_name))
    mark = len(scene.record)
    await scene.ask_to_leave(pods[0])

    def leader() -> Run | None:
        """Who has renewed the new lease: for a moment the former one does not know yet that it is none."""
        for run, link, other in ((first, "first", second), (second, "second", first)):
            if run.leads and not other.leads and _renewals(scene, link, since=mark):
                return run
        return None

    leading = await eventually(leader, "one of them leads")
    await eventually(scene.reached)
    await scene.comes_to_rest(leading)
    assert len(_tenures(scene)) == 2
    await _stop(first, second)
    invariants.all_of(scene)


async def test_the_lease_is_given_to_someone_else(scene: Scene) -> None:
    """An edit by hand names a holder that does not exist: nobody acts until its time is up, then one does."""
    pods = await scene.deploy()
    first, second = await _two(scene)
    edit = {"spec": {"holderIdentity": "nobody-we-know"}}
    await scene.direct.patch(scene.path(LEASES, SHORT_LEASE.lease_name), edit)
    await eventually(lambda: not first.leads, "the leader notices")
    mark = len(scene.record)
    await scene.ask_to_leave(pods[0])
    await eventually(lambda: first.leads or second.leads, "the stranger's time is up")
    taken_at = next(one for one in scene.record.of(on("patch", "leases"), since=mark) if one.applied).ordinal
    await scene.comes_to_rest(first if first.leads else second)
    await _stop(first, second)
    assert [one for one in scene.record.works(since=mark) if one.ordinal < taken_at] == []
    assert [holder_of(one.object) for one in _tenures(scene)][1] == "nobody-we-know"
    invariants.all_of(scene)
