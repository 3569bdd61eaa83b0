"""Who is let in where a token is asked for: what the API server says of him, asked seldom and not remembered for long."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import aiohttp
import pytest

from plimsoll.config.sources import ConfigurationError
from plimsoll.dashboard.auth import TokenGate, require_access_control
from plimsoll.dashboard.service import serve_dashboard
from plimsoll.dashboard.token_reviews import TokenReviewer
from plimsoll.kube.addresses import is_loopback
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import Credentials
from tests.config.reading import load_text
from tests.dashboard.scene import Scene
from tests.kube.stub_server import Reply, Seen, SkippingClock, StubServer, ok, refusal

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def who(name: str = "ann", *groups: str) -> Reply:
    return ok({"status": {"authenticated": True, "user": {"username": name, "groups": list(groups)}}}, 201)


NOBODY = ok({"status": {"authenticated": False, "error": "invalid bearer token"}}, 201)
ALLOWED, DENIED = (ok({"status": {"allowed": allowed}}, 201) for allowed in (True, False))


@pytest.fixture
async def stub() -> AsyncIterator[StubServer]:
    async with StubServer().serve() as server:
        yield server


@pytest.fixture
def clock() -> SkippingClock:
    return SkippingClock()


@pytest.fixture
async def web(stub: StubServer, clock: SkippingClock, scene: Scene) -> AsyncIterator[aiohttp.ClientSession]:
    async with Client(Credentials(stub.url), clock=clock, rng=random.Random(1)) as client:
        gate = TokenGate(TokenReviewer(client, clock))
        async with (
            serve_dashboard(
                scene.view, scene.config, scene.clock, gate, cluster="staging", identity="me", leading=lambda: False
            ) as (
                server,
                _,
            ),
            aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session,
        ):
            yield session


async def ask(
    web: aiohttp.ClientSession, token: str | None = "t1", path: str = "/api/v1/snapshot"
) -> tuple[int, str, str]:
    headers = {} if token is None else {"Authorization": token if " " in token else f"Bearer {token}"}
    async with web.get(path, headers=headers) as response:
        assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]
        text = await response.text() if response.status != 200 else ""
        return response.status, text, response.headers.get("WWW-Authenticate", "")


@pytest.mark.parametrize("token", [None, "Basic YTpi", "Bearer  ", "Bearer"])
@pytest.mark.parametrize("path", ["/", "/api/v1/snapshot", "/api/v1/stream", "/api/v1/explain/node/n1", "/nowhere"])
async def test_without_a_token_nothing_is_answered(
    web: aiohttp.ClientSession, stub: StubServer, token: str | None, path: str
) -> None:
    status, told, challenge = await ask(web, token if token is None or " " in token else f"{token} ", path)
    assert status == 401
    assert "Authorization: Bearer" in told
    assert challenge.startswith("Bearer")
    assert stub.seen == []


async def test_who_may_look_is_let_in_and_asked_about_once(
    web: aiohttp.ClientSession, stub: StubServer, clock: SkippingClock
) -> None:
    stub.on("POST", TOKENS, who("ann", "ops", "system:authenticated"))
    stub.on("POST", ACCESS, ALLOWED)
    for path in ("/api/v1/snapshot", "/api/v1/explain/node/n1", "/api/v1/snapshot"):
        assert (await ask(web, path=path))[0] == 200
    assert stub.calls() == [f"POST {TOKENS}", f"POST {ACCESS}"]
    token, access = (seen.json["spec"] for seen in stub.seen)
    assert token == {"token": "t1"}
    assert (access["user"], access["groups"]) == ("ann", ["ops", "system:authenticated"])
    assert access["nonResourceAttributes"] == {"path": "/plimsoll/dashboard", "verb": "get"}
    clock.ahead_seconds += 60
    stub.on("POST", TOKENS, NOBODY)
    assert (await ask(web))[0] == 401


async def test_a_token_that_nobody_knows(web: aiohttp.ClientSession, stub: StubServer) -> None:
    stub.on("POST", TOKENS, NOBODY)
    status, told, challenge = await ask(web)
    assert (status, challenge) == (401, 'Bearer realm="plimsoll"')
    assert "does not accept this token" in told
    assert "t1" not in told


async def test_who_may_not_look_is_told_what_he_needs(web: aiohttp.ClientSession, stub: StubServer) -> None:
    stub.on("POST", TOKENS, who("bob"))
    stub.on("POST", ACCESS, DENIED)
    status, told, _ = await ask(web)
    assert status == 403
    assert "bob" in told
    assert "/plimsoll/dashboard" in told
    assert "plimsoll-dashboard-viewer" in told


async def test_one_token_says_nothing_about_another(web: aiohttp.ClientSession, stub: StubServer) -> None:
    stub.on("POST", TOKENS, who("ann"), NOBODY)
    stub.on("POST", ACCESS, ALLOWED)
    assert (await ask(web, "t1"))[0] == 200
    assert (await ask(web, "t2"))[0] == 401
    assert (await ask(web, "t1"))[0] == 200


async def test_nobody_is_let_in_where_the_cluster_cannot_be_asked(web: aiohttp.ClientSession, stub: StubServer) -> None:
    stub.on("POST", TOKENS, refusal(403, "Forbidden", "tokenreviews is forbidden"))
    status, told, _ = await ask(web)
    assert status == 503
    assert "could not review the token" in told
    stub.on("POST", TOKENS, who())
    stub.on("POST", ACCESS, ALLOWED)
    assert (await ask(web))[0] == 200  # a failure is not remembered


async def test_tokens_by_the_hundred_do_not_become_questions_by_the_hundred(stub: StubServer) -> None:
    class Second(SkippingClock):
        def monotonic(self) -> float:
            return 1000.0 + self.ahead_seconds

    clock = Second()
    scene = Scene()

    def nobody(_: Seen) -> Reply:
        return NOBODY

    stub.on("POST", TOKENS, *[nobody] * 200)
    async with Client(Credentials(stub.url), clock=clock, rng=random.Random(1)) as client:
        gate = TokenGate(TokenReviewer(client, clock))
        async with (
            serve_dashboard(
                scene.view, scene.config, scene.clock, gate, cluster="staging", identity="me", leading=lambda: False
            ) as (
                server,
                _,
            ),
            aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as web,
        ):
            statuses = [(await ask(web, f"guess-{number}"))[0] for number in range(60)]
            assert set(statuses) == {401, 503}
            assert len(stub.seen) == statuses.count(401) == 20
            clock.ahead_seconds += 1
            assert (await ask(web, "another"))[0] == 401


def test_what_is_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "localhost")))
    assert not any(map(is_loopback, ("*", "0.0.0.0", "::", "10.0.0.1", "localhost.example", "")))


def test_nobody_opens_it_to_all_by_mistake(tmp_path) -> None:
    for text in ('{host: "*"}', "{host: 0.0.0.0}", "{host: 10.1.2.3, access: loopback}"):
        config = load_text(tmp_path, f"dashboard: {text}").config
        with pytest.raises(ConfigurationError, match=r"dashboard\.access.*token"):
            require_access_control(config)
    for text in ('{host: "*", access: token}', "{host: 127.0.0.1}", '{enabled: false, host: "*"}'):
        require_access_control(load_text(tmp_path, f"dashboard: {text}").config)
