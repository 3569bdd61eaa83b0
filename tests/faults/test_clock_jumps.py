"""Fault 15: the wall clock jumps by an hour, or a clock runs at twice the rate. Tenures do not overlap because of it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from plimsoll.kube.types.resources import BUDGETS
from plimsoll.runtime.clock import RealClock
from tests.clocks import PushedClock
from tests.eventually import eventually
from tests.faults import invariants
from tests.faults.faults import Hold
from tests.faults.invariants import evictions, holder_of
from tests.faults.rules import on
from tests.faults.runs import SHORT_LEASE, Run, config
from tests.faults.scene import Scene

LEASES = "coordination.k8s.io/v1/leases"


class FastClock(RealClock):
    """Two of its seconds pass in each of ours."""

    def __init__(self) -> None:
        self._began = super().now()

    def now(self) -> datetime:
        return self._began + (super().now() - self._began) * 2

    def monotonic(self) -> float:
        return super().monotonic() * 2

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 2)


async def _renewed(scene: Scene, link: str, times: int) -> None:
    mark = len(scene.record)
    await scene.record.until(
        lambda record: sum(one.applied for one in record.of(on("patch", "leases", link=link), since=mark)) >= times
    )


def _holders(scene: Scene) -> list[str]:
    """Who has held the lease, one after the other."""
    held: list[str] = []
    for revision in scene.history.revisions(scene.path(LEASES)):
        holder = holder_of(revision.object)
        if holder and (not held or held[-1] != holder):
            held.append(holder)
    return held


@pytest.mark.parametrize("whose", ["leader", "standby", "both"])
@pytest.mark.parametrize("hours", [1, -1])
async def test_the_wall_clock_jumps(scene: Scene, whose: str, hours: int) -> None:
    """S9: what time others wrote into the lease is of no account, so no jump ends a tenure or begins one."""
    pods = await scene.deploy()
    clocks = PushedClock(), PushedClock()
    settings = config(scene.namespace, election=SHORT_LEASE)
    leader = await Run.start(scene.proxy, "leader", settings, clock=clocks[0])
    await eventually(lambda: leader.leads)
    standby = await Run.start(scene.proxy, "standby", settings, clock=clocks[1])
    await _renewed(scene, "leader", 2)
    for clock, name in zip(clocks, ("leader", "standby"), strict=True):
        if whose in (name, "both"):
            clock.wall_offset += timedelta(hours=hours)
    await scene.ask_to_leave(pods[0])
    await _renewed(scene, "leader", 5)
    await scene.comes_to_rest(leader)
    assert leader.leads
    assert not standby.leads
    await standby.stop()
    await leader.stop()
    await scene.history.caught_up()
    assert len(_holders(scene)) == 1
    invariants.all_of(scene)


@pytest.mark.parametrize("fast", ["leader", "standby"])
async def test_a_clock_runs_at_twice_the_rate(scene: Scene, fast: str) -> None:
    """A lease that is renewed in time is respected, also by one whose patience ends too soon."""
    pods = await scene.deploy()
    settings = config(scene.namespace, election=SHORT_LEASE)
    clocks = {name: FastClock() if name == fast else RealClock() for name in ("leader", "standby")}
    leader = await Run.start(scene.proxy, "leader", settings, clock=clocks["leader"])
    await eventually(lambda: leader.leads)
    standby = await Run.start(scene.proxy, "standby", settings, clock=clocks["standby"])
    await scene.ask_to_leave(pods[0])
    await _renewed(scene, "leader", 15)
    await scene.comes_to_rest(leader)
    await standby.stop()
    await leader.stop()
    await scene.history.caught_up()
    assert len(_holders(scene)) == 1
    invariants.all_of(scene)


@pytest.mark.parametrize("last_first", [False, True], ids=["same pod", "another pod"])
async def test_two_tenures_overlap_because_a_clock_is_fast(scene: Scene, last_first: bool) -> None:
    """S4, S9: the standby's patience ends while the leader, whose lease calls hang, still trusts its own.

    Both then mean to have a pod leave, the same one or each another, and both requests are on their way before either
    arrives. What the leader has sent must be harmless: to the pod, and to the others of its owner.
    """
    for pod in await scene.deploy(kind="StatefulSet", leaving=2):
        # A StatefulSet replaces a pod when it is gone: it is missing for as long as it takes to go.
        await scene.annotate("pods", pod["metadata"]["name"], {"controlplane.test/gone-after": "2s"})
    await scene.budget("none", max_unavailable=0)
    settings = config(scene.namespace, election=SHORT_LEASE)
    leader = await Run.start(scene.proxy, "leader", settings)
    await eventually(lambda: leader.metric("plimsoll_blocked", code="NotEnoughPdb") == 1, "the leader waits")
    standby = await Run.start(scene.proxy, "standby", settings, clock=FastClock(), last_first=last_first)
    await eventually(lambda: not standby.operator.view.stale)
    together = Hold()
    scene.rules.add(on("get patch create", "leases", link="leader"), Hold())
    scene.rules.add(on("create", "pods/eviction"), together)
    await eventually(lambda: standby.metric("plimsoll_blocked", code="NotEnoughPdb") == 1, "the other one waits, too")
    await scene.direct.delete(scene.path("policy/v1/poddisruptionbudgets", "none"))
    await eventually(lambda: not any(len(run.operator.view[BUDGETS]) for run in (leader, standby)))
    for run in (leader, standby):
        run.operator.reconcilers[0].enqueue_all()
    await eventually(
        lambda: {one.call.link for one in evictions(scene.record)} == {"leader", "standby"} or not leader.leads,
        "both have asked, or the leader has given up",
    )
    together.released.set()
    await eventually(lambda: not leader.leads, "the leader has given up")
    await scene.comes_to_rest(standby)
    await leader.stop()
    await standby.stop()

    invariants.destructive_acts_name_a_uid(scene.record)
    invariants.changes_insist_on_what_was_seen(scene.record)
    invariants.one_pod_at_a_time(scene)
    invariants.pods_were_marked_once(scene.history, scene.path("pods"))
