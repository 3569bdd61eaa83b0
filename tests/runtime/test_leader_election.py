"""Leader election on a real API server: one leader, a monotonic clock, and an epoch for every term."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import NotFound, Unreachable
from plimsoll.kube.leader_election import LeaderElection, LeaseTimes
from plimsoll.kube.types.resources import LEASES, NAMESPACES
from tests.clocks import PushedClock, StandingClock
from tests.eventually import eventually
from tools.controlplane.cluster import ControlPlane

TIMES = LeaseTimes(timedelta(seconds=15), timedelta(seconds=10), timedelta(seconds=2))


class Candidate:
    def __init__(
        self, client: Client, namespace: str, name: str, times: LeaseTimes = TIMES, clock: PushedClock | None = None
    ) -> None:
        self.clock = clock or PushedClock()
        self.elected: list[str] = []
        self.lost: list[str] = []
        self.resumed = 0
        self.election = LeaderElection(
            client, self.clock, namespace=namespace, name="leader", identity=name, times=times,
            on_elected=self.elected.append, on_resumed=self._resume, on_lost=self.lost.append,
        )  # fmt: skip

    def _resume(self) -> None:
        self.resumed += 1

    @property
    def leading(self) -> bool:
        return self.election.term() is not None


@asynccontextmanager
async def campaigning(*candidates: Candidate) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(candidate.election.run()) for candidate in candidates]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def candidate(client: Client, namespace: str) -> Callable[[str], Candidate]:
    return lambda name: Candidate(client, namespace, name)


async def test_one_of_two_leads_and_the_other_follows_when_it_stops(candidate: Callable[[str], Candidate]):
    first, second = candidate("first"), candidate("second")
    async with campaigning(second):
        async with campaigning(first):
            await eventually(lambda: first.leading or second.leading)
            leader, other = (first, second) if first.leading else (second, first)
            await eventually(lambda: other.election.holder == ("first" if leader is first else "second"))
            assert not other.leading
            if leader is second:
                return  # the other order of the same race: nothing is left to release
        # Released on stopping: the follower needs no expiry, only its next try.
        second.clock.push(TIMES.retry_period.total_seconds())
        await eventually(lambda: second.leading)


@pytest.mark.parametrize(("holder", "left"), [("leader", ""), ("another", "another")])
async def test_a_lease_that_changed_since_it_was_seen_is_given_back_only_if_it_is_still_ours(
    candidate: Callable[[str], Candidate], client: Client, namespace: str, holder: str, left: str
):
    leader = candidate("leader")
    async with campaigning(leader):
        await eventually(lambda: leader.leading)
        await client.patch(LEASES, namespace, "leader", {"spec": {"holderIdentity": holder, "leaseTransitions": 7}})
    lease = await client.get(LEASES, namespace, "leader")
    assert (lease.spec.holder_identity or "") == left


@pytest.mark.parametrize("there", [False, True], ids=["made", "taken over"])
async def test_a_lease_that_was_just_being_taken_is_given_back(client: Client, namespace: str, there: bool):
    if there:
        body = {"metadata": {"name": "leader"}, "spec": {"holderIdentity": ""}}
        await client.create(LEASES, namespace, body)
    verb = "patch" if there else "create"
    take, taken = getattr(client, verb), asyncio.Event()

    async def applied_and_never_answered(*args: Any, **kwargs: Any) -> None:
        await take(*args, **kwargs)
        setattr(client, verb, take)
        taken.set()
        await asyncio.Event().wait()

    setattr(client, verb, applied_and_never_answered)
    one = Candidate(client, namespace, "one")
    async with campaigning(one):
        await taken.wait()
        assert (await client.get(LEASES, namespace, "leader")).spec.holder_identity == "one"
    assert not (await client.get(LEASES, namespace, "leader")).spec.holder_identity


async def test_a_duration_of_part_of_a_second_is_never_cut_short(client: Client, namespace: str):
    times = LeaseTimes(timedelta(seconds=10.5), timedelta(seconds=10.2), timedelta(seconds=2))
    one = Candidate(client, namespace, "one", times)
    async with campaigning(one):
        await eventually(lambda: one.leading)
        lease = await client.get(LEASES, namespace, "leader")
        assert lease.spec.lease_duration_seconds == 11


async def test_every_tenure_has_a_later_epoch(candidate: Callable[[str], Candidate]):
    epochs = []
    for name in ("a", "b", "a2"):
        one = candidate(name)
        async with campaigning(one):
            await eventually(lambda: one.leading)  # noqa: B023
            epochs.append(int(one.elected[0]))
    assert epochs == sorted(set(epochs))


async def test_a_lease_that_is_not_renewed_is_taken_after_its_duration_and_not_before(
    candidate: Callable[[str], Candidate], client: Client, namespace: str
):
    gone, follower = candidate("gone"), candidate("follower")
    task = asyncio.create_task(gone.election.run())
    await eventually(lambda: gone.leading)
    gone.election._release = _never  # type: ignore[method-assign]  # it crashes: nothing is given back
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with campaigning(follower):
        await eventually(lambda: follower.election.holder == "gone")
        follower.clock.push(TIMES.duration.total_seconds() - 5)
        await asyncio.sleep(0.2)
        assert not follower.leading
        follower.clock.push(6)
        await eventually(lambda: follower.leading)
        lease = await client.get(LEASES, namespace, "leader")
        assert lease.spec.lease_transitions == 1


async def _never() -> None:
    return


async def test_a_leader_that_was_stopped_knows_that_its_time_ran_out_before_it_hears_anything(
    candidate: Callable[[str], Candidate],
):
    leader = candidate("leader")
    async with campaigning(leader):
        await eventually(lambda: leader.leading)
        leader.clock.monotonic_offset += TIMES.renew_deadline.total_seconds() + 1  # as after SIGSTOP and SIGCONT
        assert not leader.leading


async def test_the_wall_clock_may_jump_either_way(candidate: Callable[[str], Candidate]):
    leader, follower = candidate("leader"), candidate("follower")
    async with campaigning(leader):
        await eventually(lambda: leader.leading)
        async with campaigning(follower):
            for hours in (1, -1):
                leader.clock.wall_offset = timedelta(hours=hours)
                follower.clock.wall_offset = timedelta(hours=-hours)
                leader.clock.push(2)
                follower.clock.push(2)
                await asyncio.sleep(0.1)
                assert leader.leading
                assert not follower.leading


async def test_a_deleted_lease_starts_a_new_tenure(
    candidate: Callable[[str], Candidate], client: Client, namespace: str
):
    leader = candidate("leader")
    async with campaigning(leader):
        await eventually(lambda: leader.leading)
        lease = await client.get(LEASES, namespace, "leader")
        await client.delete(LEASES, namespace, "leader", uid=lease.uid)
        leader.clock.push(2)
        await eventually(lambda: leader.lost)
        leader.clock.push(2)
        await eventually(lambda: len(leader.elected) == 2)
        assert leader.lost == ["the lease was deleted"]
        assert leader.elected[0] != leader.elected[1]


@pytest.mark.parametrize("verb", ["create", "patch"], ids=["acquired", "renewed"])
async def test_a_lease_counts_from_when_it_was_asked_for_not_from_a_late_reply(
    client: Client, namespace: str, verb: str
):
    """The server may have stamped it at any moment in between, and others count from there."""
    clock = StandingClock()
    call, answered = getattr(client, verb), asyncio.Event()

    async def late(*args: Any, **kwargs: Any) -> Any:
        reply = await call(*args, **kwargs)
        clock.monotonic_offset += 4
        answered.set()
        return reply

    setattr(client, verb, late)
    leader = Candidate(client, namespace, "leader", clock=clock)
    async with campaigning(leader):
        await eventually(lambda: leader.leading)
        asked_at = 0.0
        if verb == "patch":
            asked_at = TIMES.retry_period.total_seconds()
            clock.push(asked_at)
        await answered.wait()
        ends_at = asked_at + TIMES.renew_deadline.total_seconds()
        clock.monotonic_offset = ends_at - 0.1
        await eventually(lambda: leader.leading)
        clock.monotonic_offset = ends_at + 0.1
        assert not leader.leading


async def test_session_that_ran_out_and_that_nobody_took_goes_on_and_says_so(client: Client, namespace: str):
    clock = StandingClock()
    leader = Candidate(client, namespace, "leader", clock=clock)
    async with campaigning(leader):
        await eventually(lambda: leader.leading)
        clock.push(9)
        await eventually(lambda: leader.election._valid_until == 19)
        assert leader.resumed == 0  # in time
        renew = client.patch

        async def late(*args: Any, **kwargs: Any) -> Any:
            reply = await renew(*args, **kwargs)
            clock.monotonic_offset += 3
            return reply

        client.patch = late  # type: ignore[method-assign]
        clock.push(9)
        await eventually(lambda: leader.resumed == 1)
        assert leader.election.term() == leader.elected[0]
        assert (leader.elected[1:], leader.lost) == ([], [])


async def test_whoever_loses_the_lease_leaves_it_alone_for_a_while(client: Client, namespace: str):
    """A process that ends over its loss must not have taken the lease again, or the others would wait for nobody."""
    leader = Candidate(client, namespace, "leader", clock=StandingClock())
    async with campaigning(leader):
        await eventually(lambda: leader.leading)
        lease = await client.get(LEASES, namespace, "leader")
        await client.delete(LEASES, namespace, "leader", uid=lease.uid)
        leader.clock.push(2)
        await eventually(lambda: leader.lost)
        for _ in range(100):
            await asyncio.sleep(0.001)
        with pytest.raises(NotFound):
            await client.get(LEASES, namespace, "leader")
        leader.clock.push(2)
        await eventually(lambda: leader.leading)


async def test_a_lease_given_to_another_by_hand_is_lost_at_once(
    candidate: Callable[[str], Candidate], client: Client, namespace: str
):
    leader = candidate("leader")
    async with campaigning(leader):
        await eventually(lambda: leader.leading)
        await client.patch(LEASES, namespace, "leader", {"spec": {"holderIdentity": "intruder"}})
        leader.clock.push(2)
        await eventually(lambda: leader.lost)
        assert "intruder" in leader.lost[0]
        assert not leader.leading


async def test_an_edit_that_leaves_the_holder_alone_costs_nothing(
    candidate: Callable[[str], Candidate], client: Client, namespace: str
):
    leader = candidate("leader")
    async with campaigning(leader):
        await eventually(lambda: leader.leading)
        edited = await client.patch(LEASES, namespace, "leader", {"metadata": {"annotations": {"note": "hello"}}})
        leader.clock.push(2)

        async def renewed() -> bool:
            lease = await client.get(LEASES, namespace, "leader")
            return lease.metadata.resource_version != edited.metadata.resource_version

        await eventually(renewed)
        assert leader.leading
        assert not leader.lost


async def test_a_lost_reply_to_the_acquiring_write_ends_in_one_tenure(client: Client, namespace: str):
    one = Candidate(client, namespace, "one")
    create = client.create
    calls = 0

    async def applied_but_unheard(*args, **kwargs):
        nonlocal calls
        calls += 1
        await create(*args, **kwargs)
        raise Unreachable("the reply was lost")

    client.create = applied_but_unheard  # type: ignore[method-assign]
    async with campaigning(one):
        await eventually(lambda: calls == 1)
        client.create = create  # type: ignore[method-assign]
        one.clock.push(2)
        await eventually(lambda: one.leading)
        assert len(one.elected) == 1
        lease = await client.get(LEASES, namespace, "leader")
        assert lease.spec.holder_identity == "one"


async def test_a_leader_that_cannot_renew_loses_in_time(client: Client, namespace: str):
    one = Candidate(client, namespace, "one")
    async with campaigning(one):
        await eventually(lambda: one.leading)
        patch = client.patch

        async def unreachable(*_args, **_kwargs):
            raise Unreachable("no route")

        client.patch = unreachable  # type: ignore[method-assign]
        one.clock.push(4)
        await asyncio.sleep(0.1)
        assert one.election.term()  # six of ten seconds are left
        one.clock.push(7)
        assert one.election.term() is None
        await eventually(lambda: one.lost)
        client.patch = patch  # type: ignore[method-assign]


async def test_without_its_namespace_it_says_once_what_is_missing_and_leads_as_soon_as_it_is_there(
    client: Client, namespace: str
):
    home = f"{namespace}-late"
    alone = Candidate(client, home, "one")
    with capture_logs() as logs:
        for _ in range(2):
            await alone.election._once()
        (told,) = [line for line in logs if line["log_level"] == "error"]
        assert told["namespace"] == home
        assert f"kubectl create namespace {home}, or set operator.namespace" in told["remedy"]
    await client.create(NAMESPACES, "", {"metadata": {"name": home}})
    await alone.election._once()
    assert alone.leading
    made = await client.get(NAMESPACES, "", home)
    await client.delete(NAMESPACES, "", home, uid=made.uid)


async def test_in_a_namespace_that_is_being_deleted_it_loses_says_why_and_does_not_lead_again(
    candidate: Callable[[str], Candidate], control_plane: ControlPlane, namespace: str
):
    leader = candidate("leader")
    async with campaigning(leader):
        await eventually(lambda: leader.leading)
        await asyncio.to_thread(control_plane.remove_namespace, namespace)
        with capture_logs() as logs:

            def refused() -> bool:
                leader.clock.push(TIMES.retry_period.total_seconds())
                return any("because it is being terminated" in record.get("error", "") for record in logs)

            await eventually(refused)
    assert leader.lost == ["the lease was deleted"]
    assert len(leader.elected) == 1 and not leader.leading
