"""What is asked again, when, and how often."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Mapping
from datetime import timedelta
from email.utils import format_datetime

import pytest

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import Credentials
from plimsoll.kube.client.errors import (
    Ambiguous,
    CredentialsError,
    Invalid,
    MalformedResponse,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from plimsoll.kube.client.tls import Certificate
from plimsoll.kube.types.resources import CONFIGMAPS, LEASES
from plimsoll.runtime.clock import RealClock
from tests.kube.stub_server import LOST, SILENT, Chunks, Reply, SkippingClock, StubServer, configmap, ok, refusal

ONE = "/api/v1/namespaces/ns/configmaps/a"
ALL = "/api/v1/namespaces/ns/configmaps"


@pytest.mark.parametrize(
    "failure",
    [
        refusal(500, "InternalError"),
        refusal(503, "ServiceUnavailable"),
        Reply(502, b"<html>"),
        refusal(504, "Timeout"),
        LOST,
    ],
)
async def test_a_read_is_asked_again(stub: StubServer, client: Client, clock: SkippingClock, failure: Reply) -> None:
    stub.on("GET", ONE, failure, failure, ok(configmap(data={"x": "1"})))
    assert (await client.get(CONFIGMAPS, "ns", "a")).data == {"x": "1"}
    first, second = clock.slept
    assert 0.1 <= first <= 0.2 and 0.2 <= second <= 0.4  # longer each time, never at once


async def test_a_read_ends_with_its_last_error(stub: StubServer, client: Client) -> None:
    stub.on("GET", ONE, *[refusal(503, "ServiceUnavailable", "down")] * 9)
    with pytest.raises(ServerError, match="down"):
        await client.get(CONFIGMAPS, "ns", "a")
    assert len(stub.seen) == 4


async def test_a_reply_that_breaks_off_is_read_again(stub: StubServer, client: Client) -> None:
    stub.on("GET", ONE, Chunks((b'{"metadata":',), end="broken"), ok(configmap(version="8")))
    assert (await client.get(CONFIGMAPS, "ns", "a")).metadata.resource_version == "8"


async def test_a_read_that_never_answers_ends_in_time(stub: StubServer, clock: SkippingClock) -> None:
    async with Client(Credentials(stub.url), clock=clock, timeout_seconds=1) as client:
        stub.on("GET", ONE, ok(configmap()), *[SILENT] * 9)
        await client.get(CONFIGMAPS, "ns", "a")
        with pytest.raises(Unreachable, match="no answer in time"):
            await client.get(CONFIGMAPS, "ns", "a")


async def test_a_limit_of_the_caller_that_runs_out_together_with_ours_is_not_swallowed(stub: StubServer) -> None:
    stub.on("GET", ONE, SILENT, SILENT)
    async with Client(Credentials(stub.url), clock=RealClock(), timeout_seconds=1) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):  # half of the whole time: what one attempt has
                await client.get(CONFIGMAPS, "ns", "a")


async def test_a_connection_that_never_opens_ends_in_time_and_is_no_doubt() -> None:
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):  # once the queue is full, the kernel answers nobody else
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        async with Client(Credentials(url), clock=SkippingClock(), timeout_seconds=3.0) as client:
            with pytest.raises(Unreachable, match="no connection to"):
                await client.patch(CONFIGMAPS, "ns", "a", {"data": {"x": "1"}})


# ── throttling ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_throttling_is_obeyed_by_reads_and_writes_alike(
    stub: StubServer, client: Client, clock: SkippingClock
) -> None:
    throttled = refusal(429, "TooManyRequests", headers={"Retry-After": "3"})
    stub.on("GET", ONE, throttled, ok(configmap()))
    stub.on("PATCH", ONE, throttled, ok(configmap()))  # without any guard: it was never handled
    await client.get(CONFIGMAPS, "ns", "a")
    await client.patch(CONFIGMAPS, "ns", "a", {"data": {"x": "1"}})
    assert [3.0 <= seconds <= 3.75 for seconds in clock.slept] == [True, True]


async def test_a_server_that_is_away_and_says_for_how_long_is_given_that_time(
    stub: StubServer, client: Client, clock: SkippingClock
) -> None:
    away = refusal(503, "ServiceUnavailable", headers={"Retry-After": "3"})
    stub.on("GET", ONE, away, ok(configmap()))
    stub.on("PATCH", ONE, away, ok(configmap()))
    await client.get(CONFIGMAPS, "ns", "a")
    await client.patch(CONFIGMAPS, "ns", "a", {"data": {"x": "1"}})
    assert [seconds >= 3.0 for seconds in clock.slept] == [True, True]


async def test_throttling_without_a_number_waits_a_second(
    stub: StubServer, client: Client, clock: SkippingClock
) -> None:
    stub.on("GET", ONE, Reply(429, b"slow down"), ok(configmap()))
    await client.get(CONFIGMAPS, "ns", "a")
    assert 1.0 <= clock.slept[0] <= 1.25


async def test_a_date_in_retry_after_is_understood(stub: StubServer, client: Client, clock: SkippingClock) -> None:
    when = format_datetime(clock.now() + timedelta(seconds=10), usegmt=True)
    stub.on("GET", ONE, Reply(429, b"", {"Retry-After": when}), ok(configmap()))
    await client.get(CONFIGMAPS, "ns", "a")
    assert 5 < clock.slept[0] < 13


async def test_a_wait_longer_than_the_call_may_take_is_handed_on(
    stub: StubServer, client: Client, clock: SkippingClock
) -> None:
    stub.on("GET", ONE, refusal(429, "TooManyRequests", headers={"Retry-After": "120"}))
    with pytest.raises(TooManyRequests) as caught:
        await client.get(CONFIGMAPS, "ns", "a")
    assert caught.value.retry_after == 120
    assert clock.slept == []


# ── credentials ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Renewable:
    """An identity whose every renewal gives the next token."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)

    async def headers(self) -> Mapping[str, str]:
        if not self.tokens:
            raise CredentialsError("the plug-in failed")
        return {"Authorization": f"Bearer {self.tokens[0]}"}

    def certificate(self) -> Certificate | None:
        return None

    def refused(self) -> bool:
        self.tokens.pop(0)
        return True


async def test_401_renews_the_credentials_once(stub: StubServer, clock: SkippingClock) -> None:
    stub.on("POST", ALL, refusal(401, "Unauthorized"), ok(configmap(), 201))
    async with Client(Credentials(stub.url, Renewable("old", "new")), clock=clock) as client:
        await client.create(CONFIGMAPS, "ns", {"metadata": {"generateName": "a-"}})
    assert [seen.headers["Authorization"] for seen in stub.seen] == ["Bearer old", "Bearer new"]


async def test_a_second_401_is_an_answer(stub: StubServer, clock: SkippingClock) -> None:
    stub.on("GET", ONE, *[refusal(401, "Unauthorized")] * 3)
    async with Client(Credentials(stub.url, Renewable("old", "new", "third")), clock=clock) as client:
        with pytest.raises(Unauthorized):
            await client.get(CONFIGMAPS, "ns", "a")
    assert len(stub.seen) == 2


async def test_401_with_nothing_to_renew_is_an_answer(stub: StubServer, client: Client) -> None:
    stub.on("GET", ONE, refusal(401, "Unauthorized"))
    with pytest.raises(Unauthorized):
        await client.get(CONFIGMAPS, "ns", "a")
    assert len(stub.seen) == 1


async def test_credentials_that_cannot_be_had_are_told_at_once(stub: StubServer, clock: SkippingClock) -> None:
    async with Client(Credentials(stub.url, Renewable()), clock=clock) as client:
        with pytest.raises(CredentialsError, match="the plug-in failed"):
            await client.get(CONFIGMAPS, "ns", "a")
    assert stub.seen == [] and clock.slept == []


async def test_lost_credentials_do_not_hide_that_a_write_is_in_doubt(stub: StubServer, clock: SkippingClock) -> None:
    identity = Renewable("only")

    def lose(_: object) -> Reply:
        identity.tokens.clear()
        return Reply(504, b"gateway timeout")

    stub.on("PATCH", ONE, lose)
    async with Client(Credentials(stub.url, identity), clock=clock) as client:
        with pytest.raises(Ambiguous):
            await client.patch(CONFIGMAPS, "ns", "a", {"data": {"x": "1"}}, resource_version="7")


# ── what is asked ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_every_request_says_who_asks_and_in_what_form(stub: StubServer, client: Client) -> None:
    stub.on("GET", ONE, ok(configmap()))
    await client.get(CONFIGMAPS, "ns", "a")
    headers = stub.seen[0].headers
    assert headers["User-Agent"].startswith("plimsoll/")
    assert headers["Accept"] == "application/json"
    assert headers["Accept-Encoding"] == "identity"


async def test_a_list_is_read_in_pages_and_asks_a_quorum(stub: StubServer, client: Client) -> None:
    def page(*names: str, go_on: str = "") -> Reply:
        return ok(
            {"metadata": {"resourceVersion": "9", "continue": go_on}, "items": [configmap(name) for name in names]}
        )

    stub.on("GET", ALL, page("a", "b", go_on="token"), refusal(503), page("c"))
    listing = await client.list(CONFIGMAPS, "ns", label_selector="app in (x,y)", field_selector="metadata.name!=z")
    assert [item.name for item in listing.items] == ["a", "b", "c"]
    assert listing.resource_version == "9"
    selectors = {"labelSelector": "app in (x,y)", "fieldSelector": "metadata.name!=z", "limit": "500"}
    assert [seen.query for seen in stub.seen] == [selectors, *[{**selectors, "continue": "token"}] * 2]


async def test_a_list_whose_snapshot_expires_is_read_again_in_one_piece(stub: StubServer, client: Client) -> None:
    first = {"metadata": {"resourceVersion": "9", "continue": "token"}, "items": [configmap("a")]}
    whole = {"metadata": {"resourceVersion": "12"}, "items": [configmap("a"), configmap("b")]}
    stub.on("GET", ALL, ok(first), refusal(410, "Expired"), ok(whole))
    listing = await client.list(CONFIGMAPS, "ns")
    assert [item.name for item in listing.items] == ["a", "b"]
    assert listing.resource_version == "12"
    assert stub.seen[-1].query == {}


async def test_an_empty_list_may_have_no_items(stub: StubServer, client: Client) -> None:
    stub.on("GET", ALL, ok({"metadata": {"resourceVersion": "9"}, "items": None}))
    assert (await client.list(CONFIGMAPS, "ns")).items == ()


async def test_every_attempt_is_observed(stub: StubServer, clock: SkippingClock) -> None:
    seen: list[tuple[str, str, int]] = []

    def observe(verb: str, plural: str, status: int, seconds: float) -> None:
        assert seconds >= 0
        seen.append((verb, plural, status))

    stub.on("GET", ONE, LOST, refusal(503), ok(configmap()))
    stub.on("POST", "/api/v1/namespaces/ns/pods/p/eviction", Reply(201))
    stub.on("GET", "/apis/apps/v1/deployments", ok({"metadata": {}}))
    async with Client(Credentials(stub.url), clock=clock, observe=observe) as client:
        await client.get(CONFIGMAPS, "ns", "a")
        await client.evict("ns", "p", uid="u1")
        await client.read("/apis/apps/v1/deployments", {"limit": "1"})
    assert seen == [
        ("get", "configmaps", 0),
        ("get", "configmaps", 503),
        ("get", "configmaps", 200),
        ("create", "pods/eviction", 201),
        ("list", "deployments", 200),
    ]


# ── urgency ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_urgent_call_gets_its_second_attempt_on_a_new_connection(stub: StubServer) -> None:
    """Behind a pool of dead connections a lease would run out."""
    lease = {"metadata": {"name": "l", "namespace": "ns", "uid": "u", "resourceVersion": "1"}, "spec": {}}
    path = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"
    async with Client(Credentials(stub.url), clock=SkippingClock(), timeout_seconds=2) as client:
        stub.on("GET", ONE, *[ok(configmap())] * 5)
        await asyncio.gather(*[client.get(CONFIGMAPS, "ns", "a") for _ in range(5)])
        others = {seen.connection for seen in stub.seen}
        stub.on("GET", path, ok(lease), SILENT, ok(lease))
        await client.get(LEASES, "ns", "l", urgent=True)
        await client.get(LEASES, "ns", "l", urgent=True)
    first, dead, fresh = [seen.connection for seen in stub.seen[5:]]
    assert first == dead and fresh not in {dead, *others}


async def test_a_dry_run_is_a_read(stub: StubServer, client: Client) -> None:
    stub.on("POST", ALL, LOST, refusal(504, "Timeout"), ok(configmap(), 201))
    await client.create(CONFIGMAPS, "ns", {"metadata": {"generateName": "a-"}}, dry_run=True)
    assert [seen.query["dryRun"] for seen in stub.seen] == ["All"] * 3
    stub.on("POST", ALL, *[LOST] * 4)
    with pytest.raises(Unreachable):
        await client.create(CONFIGMAPS, "ns", {"metadata": {"generateName": "a-"}}, dry_run=True)
    stub.on("POST", ALL, Reply(200, b"<html>"), refusal(422, "Invalid"))
    with pytest.raises(MalformedResponse):
        await client.create(CONFIGMAPS, "ns", {"metadata": {"name": "a"}}, dry_run=True)
    with pytest.raises(Invalid):
        await client.create(CONFIGMAPS, "ns", {"metadata": {"name": "a"}}, dry_run=True)
