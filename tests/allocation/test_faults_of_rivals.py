"""Faults 13 to 16 in the midst of an allocation: a stopped holder, leases that people touch, clocks, recreated containers.

An operator is stopped by holding one of its requests on the way; the lease of these tests runs out after three seconds.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from plimsoll.controllers.allocation.inventory import BLOCKED
from tests.allocation.environment import FIRST_SWEEP, SHORT_LEASE, Stage, SuspendedClock
from tests.clocks import PushedClock
from tests.eventually import eventually
from tests.faults import answers
from tests.faults.faults import Answer, Hold, Slow, StaleList
from tests.faults.rules import Rule, on
from tests.faults.test_clock_jumps import FastClock

PROPOSAL, COMMIT = 0, 1
STATUS = "wekacontainers/status"


@pytest.fixture
def stage(stage: Stage) -> Stage:
    stage.times = SHORT_LEASE
    return stage


async def _struck(rule: Rule) -> None:
    await eventually(lambda: rule.struck, "the operator is in the midst of its session")


async def _runs_out(stage: Stage, *clocks: PushedClock) -> None:
    """The lease of the first one runs out for everyone, as soon as the second one has looked at it."""
    looks = on("get", "leases", link="second")
    await stage.record.until(lambda record: sum(one.told == 200 for one in record.of(looks)) >= 2)
    for clock in clocks:
        clock.push(SHORT_LEASE.duration.total_seconds())


# ── 13: stopped beyond its lease, then resumed ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("verbs", "resource", "skip"),
    [
        ("list", "wekacontainers", 1),  # the first one fills the view
        ("patch", STATUS, PROPOSAL),
        ("get", "leases", 1),  # the live look at the lease before the commit
        ("patch", STATUS, COMMIT),
    ],
    ids=["list", "proposal", "verification", "commit"],
)
async def test_a_holder_that_was_stopped_goes_on(stage: Stage, verbs: str, resource: str, skip: int) -> None:
    """S1, S9: meanwhile another serves everyone; what the first one still does is harmless."""
    node = await stage.node("S1", "S2")
    await stage.container("c000", node=node, drives=1)
    late = Hold()
    held = stage.rules.add(on(verbs, resource, link="first"), late, skip=skip, times=1)
    clocks = PushedClock(), PushedClock()
    async with stage.operator("first", clock=clocks[0]) as first:
        await _struck(held)
        await stage.container("c001", node=node, drives=1)
        async with stage.operator("second", clock=clocks[1]) as second:
            await _runs_out(stage, *clocks)
            await stage.all_served(["c000", "c001"])
            late.released.set()
            await first.look()
            await second.look()
    drives = [(await stage.allocations(name))["drives"] for name in ("c000", "c001")]
    assert sorted(drives) == [["S1"], ["S2"]]


@pytest.mark.skip(
    reason="the other operator now writes a condition about the shortage, and which of the two writes comes first is chance: "
    "the test needs another way to hold the proposal back"
)
async def test_a_proposal_that_arrives_late_is_never_committed(stage: Stage) -> None:
    """S1: nothing about the container has changed, so the server takes the proposal. The lease tells that it is too late."""
    node = await stage.node("S1", "S2")
    await stage.container("wants-two", node=node, drives=2)
    late = Hold()
    held = stage.rules.add(on("patch", STATUS, link="first"), late, times=1)
    async with stage.operator("first", clock=SuspendedClock()):
        await _struck(held)
        await stage.annotate_node(node, {BLOCKED: '["S2"]'})  # now there is too little for it, and enough for another
        clock = PushedClock()
        async with stage.operator("second", clock=clock):
            await stage.container("wants-one", node=node, drives=1)
            await _runs_out(stage, clock)
            await stage.all_served(["wants-one"])
            mark = len(stage.record)
            late.released.set()
            await stage.record.until(
                lambda record: any(one.applied for one in record.of(on("patch", STATUS, link="first")))
            )

            async def cleared() -> bool:
                return not await stage.condition("wants-two", "AllocationProposed")

            await eventually(cleared, "L4: the next holder takes it back")
    assert (await stage.allocations("wants-one"))["drives"] == ["S1"]
    assert await stage.allocations("wants-two") == {}
    assert stage.record.of(on("get", "leases", link="first"), since=mark), "it looked at the lease before it went on"


# ── 14: slow leases, and leases that people touch ────────────────────────────────────────────────────────────────────


async def test_slow_lease_calls(stage: Stage) -> None:
    node = await stage.node("S1", "S2")
    stage.rules.add(on("get create patch", "leases"), Slow(0.4))
    names = await stage.containers(2, node=node)
    async with stage.operator("first"), stage.operator("second"):
        await stage.all_served(names)


@pytest.mark.parametrize("how", ["edited", "deleted", "taken"])
async def test_a_lease_that_is_touched_in_mid_session_stops_the_commit(stage: Stage, how: str) -> None:
    node = await stage.node("S1")
    await stage.container("c000", node=node, drives=1)
    late = Hold()
    held = stage.rules.add(on("patch", STATUS), late, skip=PROPOSAL, times=1)
    async with stage.operator():
        await _struck(held)
        path = f"/apis/coordination.k8s.io/v1/namespaces/{stage.namespace}/leases/weka-allocator-{node}"
        match how:
            case "edited":
                await stage.direct.patch(path, {"metadata": {"labels": {"touched": "yes"}}})
            case "deleted":
                await stage.direct.delete(path)
            case _:
                await stage.direct.patch(path, {"spec": {"holderIdentity": "ns/rival", "leaseDurationSeconds": 2}})
        mark = len(stage.record)
        late.released.set()
        await stage.all_served(["c000"])
    after = stage.record.of(on("patch", STATUS), since=mark)
    assert len(after) >= 2, "the first proposal was cleared and made anew, not committed"


# ── 15: clocks ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_wall_clocks_that_jump_and_a_clock_at_twice_the_rate(stage: Stage) -> None:
    node = await stage.node(*(f"S{n}" for n in range(20)))
    ahead, behind = PushedClock(), PushedClock()
    async with (
        stage.operator("ahead", clock=ahead),
        stage.operator("behind", clock=behind),
        stage.operator("fast", clock=FastClock()),
    ):
        first = await stage.containers(10, node=node, prefix="a")
        ahead.wall_offset, behind.wall_offset = timedelta(hours=1), timedelta(hours=-1)
        second = await stage.containers(10, node=node, prefix="b")
        await stage.all_served([*first, *second])


# ── 16: containers that are recreated, statuses that are wiped ───────────────────────────────────────────────────────


@pytest.mark.parametrize("skip", [PROPOSAL, COMMIT], ids=["proposal", "commit"])
async def test_a_container_that_is_recreated_in_mid_allocation(stage: Stage, skip: int) -> None:
    """S8: what was meant for the first one does not land on its namesake."""
    node = await stage.node("S1", "S2")
    before = await stage.container("c000", node=node, drives=1)
    late = Hold()
    held = stage.rules.add(on("patch", STATUS), late, skip=skip, times=1)
    async with stage.operator():
        await _struck(held)
        await stage.delete("c000")
        now = await stage.container("c000", node=node, drives=2)
        late.released.set()
        await stage.all_served(["c000"])
    assert now["metadata"]["uid"] != before["metadata"]["uid"]
    assert (await stage.allocations("c000"))["drives"] == ["S1", "S2"]
    # The late one insists on the first container, so it is refused; what the namesake has, it was given for itself.
    assert next(one for one in stage.record if "Hold()" in one.faults).answered in (404, 409, 422)


async def test_a_status_that_is_edited_in_mid_allocation(stage: Stage) -> None:
    """S3: the commit insists on the version that its proposal made; it is proposed anew, and nothing is overwritten."""
    node = await stage.node("S1", "S2")
    await stage.container("c000", node=node, drives=1)
    late = Hold()
    held = stage.rules.add(on("patch", STATUS), late, skip=COMMIT, times=1)
    async with stage.operator():
        await _struck(held)
        await stage.set_status("c000", {"status": "Running", "allocations": {"drives": ["S2"], "wekaPort": 40000}})
        late.released.set()
        await stage.all_served(["c000"])
    assert await stage.allocations("c000") == {"drives": ["S2"], "wekaPort": 40000, "agentPort": 35300}


# ── 4, 9, 10 ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("resource", [STATUS, "leases"])
async def test_conflicts_in_a_row(stage: Stage, resource: str) -> None:
    node = await stage.node("S1", "S2")
    names = await stage.containers(2, node=node)
    struck = stage.rules.add(on("patch create", resource), Answer(answers.conflict), times=5)
    async with stage.operator() as operator:
        await stage.all_served(names)
        await operator.idle()
        assert struck.struck == 5
        mark = len(stage.record)
        await operator.look()
        assert (stage.calls(since=mark) - FIRST_SWEEP).total() == 0, "L2: then nothing more is written"


async def test_a_restart_onto_a_server_that_lags_behind(stage: Stage) -> None:
    """The past shows containers that wait; what is given out follows from a live list."""
    node = await stage.node("S1", "S2")
    await stage.container("c000", node=node, drives=1)
    past = (await stage.direct.get(stage.path))["metadata"]["resourceVersion"]
    async with stage.operator("first"):
        await stage.all_served(["c000"])
    stage.rules.add(on("list get watch"), StaleList(past))
    mark = len(stage.record)
    async with stage.operator("second") as second:
        await second.look()
        await stage.container("c001", node=node, drives=1)
        await stage.all_served(["c001"])
    assert [one.call.params for one in stage.record if one.call.params.get("resourceVersion") == "0"] == []
    assert [one for one in stage.record.of(on("patch", STATUS), since=mark) if one.call.name == "c000"] == []


async def test_deleted_and_recreated_while_the_watch_is_broken(stage: Stage) -> None:
    node = await stage.node("S1", "S2")
    async with stage.operator() as operator:
        await stage.container("c000", node=node, drives=1)
        await stage.all_served(["c000"])
        await operator.idle()
        closed = stage.rules.add(on("watch", "wekacontainers"), Answer(answers.unavailable))
        operator.link.drop(on("watch", "wekacontainers"))
        await eventually(lambda: closed.struck > 0, "the watch is being tried again")
        await stage.delete("c000")
        await stage.container("c000", node=node, drives=2)
        await stage.container("come-and-gone", node=node, drives=1)
        await stage.delete("come-and-gone")
        stage.rules.drop(closed)
        await stage.all_served(["c000"])
    assert (await stage.allocations("c000"))["drives"] == ["S1", "S2"]
