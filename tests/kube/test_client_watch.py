"""Watches: bytes as they come, and every way in which they end."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import Credentials
from plimsoll.kube.client.errors import Forbidden, Gone, TooManyRequests, Unreachable
from plimsoll.kube.client.tls import Certificate
from tests.kube.stub_server import LOST, SILENT, Chunks, SkippingClock, StubServer, refusal

PODS_PATH = "/api/v1/pods"


async def everything(client: Client, idle_seconds: float = 30) -> bytes:
    async with client.watch(PODS_PATH, {"resourceVersion": "5"}, idle_seconds=idle_seconds) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def test_a_watch_ends_where_the_server_ends_it(stub: StubServer, client: Client) -> None:
    stub.on("GET", PODS_PATH, Chunks((b'{"type":"ADDED"', b"}\n", b'{"type":"BOOKMARK"}\n')))
    assert await everything(client) == b'{"type":"ADDED"}\n{"type":"BOOKMARK"}\n'
    assert stub.seen[0].query == {"resourceVersion": "5", "watch": "true"}


async def test_a_line_may_be_longer_than_any_buffer(stub: StubServer, client: Client) -> None:
    line = b"x" * 3_000_000 + b"\n"
    stub.on("GET", PODS_PATH, Chunks((line,)))
    assert await everything(client) == line


async def test_a_chunk_is_handed_on_while_the_watch_goes_on(stub: StubServer, client: Client) -> None:
    stub.on("GET", PODS_PATH, Chunks((b"first\n",), end="silent"))
    async with client.watch(PODS_PATH, {}, idle_seconds=60) as chunks:
        assert await anext(chunks) == b"first\n"


async def test_silence_is_noticed(stub: StubServer, client: Client) -> None:
    stub.on("GET", PODS_PATH, Chunks((b"first\n",), end="silent"))
    async with client.watch(PODS_PATH, {}, idle_seconds=0.5) as chunks:
        assert await anext(chunks) == b"first\n"
        with pytest.raises(Unreachable, match="no answer in time"):
            await anext(chunks)


async def test_a_watch_that_never_begins_is_noticed(stub: StubServer, client: Client) -> None:
    stub.on("GET", PODS_PATH, SILENT)
    with pytest.raises(Unreachable):
        await everything(client, idle_seconds=0.5)


async def test_a_broken_connection_is_no_proper_end(stub: StubServer, client: Client) -> None:
    stub.on("GET", PODS_PATH, Chunks((b"first\n",), end="broken"), LOST)
    for _ in range(2):
        with pytest.raises(Unreachable, match="watch /api/v1/pods"):
            await everything(client)
    assert len(stub.seen) == 2  # nothing is repeated: who watches knows from where to go on


async def test_a_refused_watch_has_its_type(stub: StubServer, client: Client) -> None:
    stub.on(
        "GET", PODS_PATH,
        refusal(410, "Expired"), refusal(403, "Forbidden"), refusal(429, headers={"Retry-After": "4"}),
    )  # fmt: skip
    for expected in (Gone, Forbidden, TooManyRequests):
        with pytest.raises(expected):
            await everything(client)


async def fail_at_the_first_chunk(client: Client) -> None:
    async with client.watch(PODS_PATH, {}, idle_seconds=60) as chunks:
        async for _ in chunks:
            raise LookupError("mine")


async def test_an_error_of_the_one_who_watches_passes_through_and_frees_the_connection(stub: StubServer) -> None:
    stub.on("GET", PODS_PATH, *[Chunks((b"x\n",), end="silent")] * 2)
    async with Client(Credentials(stub.url), clock=SkippingClock()) as client:
        with pytest.raises(LookupError, match="mine"):
            await fail_at_the_first_chunk(client)
        async with client.watch(PODS_PATH, {}, idle_seconds=60) as chunks:
            assert await anext(chunks) == b"x\n"
    assert len({seen.connection for seen in stub.seen}) == 2


class Renewable:
    token = "old"

    async def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def certificate(self) -> Certificate | None:
        return None

    def refused(self) -> bool:
        self.token = "new"
        return True


async def test_401_renews_the_credentials_of_a_watch(stub: StubServer) -> None:
    stub.on("GET", PODS_PATH, refusal(401, "Unauthorized"), Chunks((b"x\n",)))
    async with Client(Credentials(stub.url, Renewable()), clock=SkippingClock()) as client:
        assert await everything(client) == b"x\n"
    assert [seen.headers["Authorization"] for seen in stub.seen] == ["Bearer old", "Bearer new"]
