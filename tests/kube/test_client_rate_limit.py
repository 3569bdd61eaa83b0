"""The client's own rate limit: a burst, then a steady rate, in order, and leases pass by."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import Credentials
from plimsoll.kube.client.rate_limit import RateLimit
from plimsoll.kube.types.resources import CONFIGMAPS, LEASES
from tests.kube.stub_server import Reply, StubServer, configmap, ok


class SteppedClock:
    """Time that passes only when everyone waits, and then exactly as far as the first who does."""

    def __init__(self) -> None:
        self.time = 0.0
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time, UTC)

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self.time + seconds, woken))
        await woken

    async def run(self) -> None:
        """Let everyone wait who will, and wake them one after the other until nobody waits."""
        await settle()
        while self._waiting:
            self._waiting.sort(key=lambda entry: entry[0])
            self.time, woken = self._waiting.pop(0)
            if not woken.done():
                woken.set_result(None)
            await settle()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def turns(limit: RateLimit, clock: SteppedClock, count: int) -> list[tuple[int, float]]:
    passed: list[tuple[int, float]] = []

    async def one(number: int) -> None:
        await limit.take()
        passed.append((number, round(clock.time, 6)))

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(one(number))
        await clock.run()
    return passed


async def test_a_burst_passes_at_once_and_the_rest_in_order_at_the_rate() -> None:
    clock = SteppedClock()
    passed = await turns(RateLimit(10, 3, clock), clock, 6)
    assert passed == [(0, 0), (1, 0), (2, 0), (3, 0.1), (4, 0.2), (5, 0.3)]


async def test_the_bucket_fills_again_but_never_beyond_the_burst() -> None:
    clock = SteppedClock()
    limit = RateLimit(10, 3, clock)
    await turns(limit, clock, 5)
    clock.time += 3600
    passed = await turns(limit, clock, 5)
    assert [when - 3600.2 < 0.001 for _, when in passed] == [True, True, True, False, False]


async def test_the_urgent_pass_by_and_the_others_pay() -> None:
    clock = SteppedClock()
    limit = RateLimit(10, 1, clock)
    passed: list[str] = []

    async def one(name: str, *, urgent: bool) -> None:
        await limit.take(urgent=urgent)
        passed.append(f"{name} at {clock.time:.1f}")

    async with asyncio.TaskGroup() as group:
        for name, urgent in (("a", False), ("b", False), ("lease", True), ("c", False)):
            group.create_task(one(name, urgent=urgent))
        await clock.run()
    assert passed == ["a at 0.0", "lease at 0.0", "b at 0.1", "c at 0.3"]


async def test_a_turn_that_is_given_up_goes_back() -> None:
    clock = SteppedClock()
    limit = RateLimit(10, 1, clock)
    await limit.take()
    given_up = asyncio.create_task(limit.take())
    await settle()
    given_up.cancel()
    await settle()
    passed = await turns(limit, clock, 1)
    assert passed == [(0, 0.1)]


@pytest.mark.parametrize(("qps", "burst"), [(0, 10), (-1, 10), (10, 0)])
def test_a_limit_that_lets_nothing_pass_is_refused(qps: float, burst: int) -> None:
    with pytest.raises(ValueError, match="expected both above zero"):
        RateLimit(qps, burst, SteppedClock())


async def test_a_client_waits_and_its_lease_and_its_evictions_do_not() -> None:
    clock = SteppedClock()
    one, lease = "/api/v1/namespaces/ns/configmaps/a", "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"
    async with StubServer().serve() as stub, Client(Credentials(stub.url), clock=clock, qps=1, burst=1) as client:
        stub.on("GET", one, *[ok(configmap())] * 2)
        stub.on("GET", lease, ok({"metadata": {"name": "l"}}))
        stub.on("POST", "/api/v1/namespaces/ns/pods/p/eviction", Reply(201))
        await client.get(CONFIGMAPS, "ns", "a")
        waiting = asyncio.create_task(client.get(CONFIGMAPS, "ns", "a"))
        await settle()
        await client.get(LEASES, "ns", "l", urgent=True)
        await client.evict("ns", "p", uid="u1")
        assert len(stub.seen) == 3 and not waiting.done()
        await clock.run()
        await waiting
        assert clock.time == pytest.approx(1)
