"""What the server answers, and how: GET alone, with headers that keep a browser from being turned against its user."""

from __future__ import annotations

import asyncio
import gzip
import socket
from datetime import datetime

import aiohttp
import msgspec
import pytest

from plimsoll.dashboard import broadcaster as showing_module
from plimsoll.dashboard import server as server_module
from plimsoll.dashboard.server import DashboardServer
from plimsoll.explain.targets import Explainer, key_of
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Pod
from tests import build
from tests.dashboard.scene import Scene, merged, shown
from tests.dashboard.streams import events
from tests.eventually import eventually

EVERY_KIND_OF_REPLY = (
    "/", "/api/v1/snapshot", "/api/v1/picture", "/api/v1/stream", "/api/v1/explain/node/n1", "/api/v1/explain/node/none",
    "/api/v1/explain/planet/mars", "/assets/none.js", "/nowhere", "/api/v1/nowhere",
)  # fmt: skip
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@pytest.mark.parametrize("path", EVERY_KIND_OF_REPLY)
async def test_headers_of_every_reply(web: aiohttp.ClientSession, path: str) -> None:
    async with web.get(path) as response:
        assert response.headers["Content-Security-Policy"] == POLICY
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"
        assert response.headers["X-Frame-Options"] == "DENY"
        assert "Access-Control-Allow-Origin" not in response.headers
        assert "Python" not in response.headers["Server"]
        if path.startswith("/api/"):
            assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", ["/", "/api/v1/snapshot", "/nowhere"])
async def test_nothing_but_get(web: aiohttp.ClientSession, method: str, path: str) -> None:
    async with web.request(method, path) as response:
        assert response.status == 405
        assert response.headers["Allow"] == "GET"
        assert response.headers["Content-Security-Policy"] == POLICY


async def test_the_snapshot(web: aiohttp.ClientSession) -> None:
    async with web.get("/api/v1/snapshot") as response:
        assert response.status == 200
        assert response.content_type == "application/json"
        assert response.headers["Content-Encoding"] == "gzip"
        found = await response.json()
    assert found["whole"] is True
    assert found["nodes"].keys() == {"n1", "n2", "n3"}
    assert found["operator"]["identity"] == "me"
    assert found["operator"]["cluster"] == "staging"


async def test_the_snapshot_plain_and_squeezed_are_the_same(served: DashboardServer) -> None:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{served.port}", auto_decompress=False) as session:
        async with session.get("/api/v1/snapshot", headers={"Accept-Encoding": "identity"}) as response:
            assert "Content-Encoding" not in response.headers
            plain = await response.read()
        async with session.get("/api/v1/snapshot", headers={"Accept-Encoding": "gzip"}) as response:
            assert gzip.decompress(await response.read()) == plain


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
async def test_the_stream_and_those_who_join_later_see_the_same(
    web: aiohttp.ClientSession, scene: Scene, encoding: str
) -> None:
    headers = {"Accept-Encoding": encoding}
    async with web.get("/api/v1/stream?events=snapshot", headers=headers) as early:
        assert early.content_type == "text/event-stream"
        stream = events(early)
        kind, version, page = await anext(stream)
        assert (kind, int(version)) == ("snapshot", page["version"])
        scene.put(build.pod("news", node="n1"), build.pod("waits", node="", phase="Pending"))
        while "default/waits" not in page["pending"]:
            kind, version, change = await anext(stream)
            assert kind == "change"
            assert change["whole"] is False
            assert int(version) == change["version"] == page["version"] + 1
            page = merged(page, change)
        async with web.get("/api/v1/stream", headers=headers) as late:
            kind, _, whole = await anext(events(late))
            assert kind == "picture", (
                "the event name of the previous release, for pages that do not ask for the new one"
            )
        while page["version"] < whole["version"]:
            page = merged(page, (await anext(stream))[2])
        assert shown(page) == shown(whole)


async def test_signs_of_life_tell_the_time(
    web: aiohttp.ClientSession, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As events, and with data: a browser shows its page no others."""
    monkeypatch.setattr(server_module, "HEARTBEAT_SECONDS", 0.05)
    before = scene.clock.now()
    async with web.get("/api/v1/stream") as response:
        beats: list[datetime] = []
        event = b""
        async for line in response.content:
            if event == b"event: beat\n" and line.startswith(b"data: "):
                beats.append(datetime.fromisoformat(msgspec.json.decode(line.removeprefix(b"data: "))["now"]))
            event = line if line.startswith(b"event: ") else event
            if len(beats) == 3:
                break
    assert before < beats[0] < beats[1] < beats[2]


async def test_what_would_be_decided_is_shown_where_nobody_acts(web: aiohttp.ClientSession) -> None:
    async with web.get("/api/v1/stream") as response:
        stream = events(response)
        _, _, page = await anext(stream)
        while "Deployment/default/web" not in page["workloads"]:
            page = merged(page, (await anext(stream))[2])
    assert page["operator"]["leader"] is False
    assert page["workloads"]["Deployment/default/web"]["target"] == {"spot": 2, "onDemand": 1}


async def test_as_many_as_one_process_serves(web: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing_module, "MOST_CLIENTS", 2)
    first, second = [await web.get("/api/v1/stream") for _ in range(2)]
    async with web.get("/api/v1/stream") as third:
        assert third.status == 503
        assert third.headers["Retry-After"]
        assert "too many open dashboards" in await third.text()
    first.close()

    async def admitted() -> bool:
        async with web.get("/api/v1/stream") as again:
            return again.status == 200

    await eventually(admitted, "a place is free again once someone has left")
    second.close()


@pytest.mark.history  # megabytes, until the kernel takes no more
async def test_who_takes_nothing_is_let_go(web: aiohttp.ClientSession, served: DashboardServer, scene: Scene) -> None:
    """A client that stops reading while large changes come: its connection ends, and the others' do not."""
    with socket.socket() as idle:
        idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        idle.connect(("127.0.0.1", served.port))
        idle.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with web.get("/api/v1/stream") as response:
            stream = events(response)
            await eventually(lambda: len(served.broadcaster.clients) == 2, "both look on")
            number = 0
            while len(served.broadcaster.clients) == 2:
                number += 1
                assert number < 1000, "the client is let go"
                scene.put(*(build.pod(f"{'x' * 240}-{number}-{n}", node=f"n{n % 3 + 1}") for n in range(300)))
                await anext(stream)
            assert response.connection is not None


async def test_an_explanation_is_what_the_command_gives(web: aiohttp.ClientSession, scene: Scene) -> None:
    async with web.get("/api/v1/explain/deployment/default/web") as response:
        assert response.status == 200
        found = await response.json()
    explainer = Explainer(scene.config, [one.name for one in scene.controllers])
    answer = explainer.explain(key_of("deployment/web", "default", scene.view), scene.view, scene.clock.now())
    expected = msgspec.json.decode(msgspec.json.encode(answer))
    assert {**found, "asOf": ""} == {**expected, "asOf": ""}


@pytest.mark.parametrize("path", ["node/n1", "pod/default/web-1-1", "deploy/web"])
async def test_what_can_be_explained(web: aiohttp.ClientSession, path: str) -> None:
    async with web.get(f"/api/v1/explain/{path}") as response:
        assert response.status == 200, await response.text()
        assert (await response.json())["name"] == path.rpartition("/")[2]


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("planet/mars", 400, "deployment"),
        ("node/none", 404, "there is no node none"),
        ("deployment/default/none", 404, "there is no Deployment default/none"),
        ("nodegroup/infra/pool", 404, "NodeGroup"),
        ("wekacontainer/default/one", 404, "WekaContainer"),
    ],
)
async def test_what_cannot_be_explained(web: aiohttp.ClientSession, path: str, status: int, told: str) -> None:
    async with web.get(f"/api/v1/explain/{path}") as response:
        assert response.status == status
        assert told in await response.text()


@pytest.mark.parametrize(
    "path",
    [
        "../server.py",
        "..%2fserver.py",
        "%2e%2e/server.py",
        "/etc/passwd",
        "..%5cserver.py",
        "vendor",
        "x/../../records.py",
    ],
)
async def test_no_way_out_of_the_assets(served: DashboardServer, path: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(f"GET /assets/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    assert answer.split(b" ", 2)[1] == b"404"


async def test_the_page_is_revalidated(web: aiohttp.ClientSession) -> None:
    async with web.get("/") as response:
        assert response.status == 200
        assert response.content_type == "text/html"
        tag = response.headers["ETag"]
    async with web.get("/", headers={"If-None-Match": tag}) as response:
        assert response.status == 304


async def test_nothing_that_could_be_a_secret(web: aiohttp.ClientSession, scene: Scene) -> None:
    """Environment, commands, images, labels and annotations that nobody needs: in no reply."""
    hidden = "hidden-5c0ff"
    body = {
        "metadata": {
            **build.metadata("secretive"),
            "labels": {"team": f"{hidden}-label"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": f"{hidden}-annotation"},
        },
        "spec": {
            "nodeName": "n1",
            "containers": [
                {
                    "name": "main", "image": f"{hidden}-image", "command": [f"{hidden}-command"],
                    "env": [{"name": "PASSWORD", "value": f"{hidden}-env"}],
                }
            ],
        },
        "status": {"phase": "Running"},
    }  # fmt: skip
    scene.put(convert(body, Pod))
    for path in ("/api/v1/snapshot", "/api/v1/explain/pod/default/secretive", "/api/v1/explain/node/n1"):
        async with web.get(path) as response:
            text = await response.text()
            assert response.status == 200
            assert "secretive" in text or path.endswith("n1")
            assert hidden not in text


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8090", 200), ("127.0.0.1", 200), ("[::1]:8090", 200), ("localhost", 200), ("LOCALHOST:1", 200),
        ("evil.example:8090", 421), ("127.0.0.1.evil.example", 421), ("", 421), ("10.0.0.7:8090", 421),
        ("localhost.evil.example", 421), ("[::2]", 421),
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/api/v1/snapshot", "/nowhere"])
async def test_a_name_that_was_made_to_point_here_is_refused(
    web: aiohttp.ClientSession, host: str, status: int, path: str
) -> None:
    async with web.get(path, headers={"Host": host}) as response:
        assert response.status == (404 if status == 200 and path == "/nowhere" else status)
        if status == 421:
            assert "port-forward" in await response.text()
