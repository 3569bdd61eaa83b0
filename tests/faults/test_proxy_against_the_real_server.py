"""What the proxy says in the API server's name is what a real one says: each refusal is provoked, and the two are compared."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from tests.eventually import eventually
from tests.faults import answers
from tests.faults.answers import Reply
from tests.faults.calls import Call
from tests.faults.proxy import Link
from tests.faults.scene import Scene
from tests.faults.upstream import Json
from tools.controlplane.cluster import ControlPlane


async def ask(link: Link, method: str, path: str, body: Json | None = None, **headers: str) -> Reply:
    data = None if body is None else json.dumps(body).encode()
    wanted = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with (
        aiohttp.ClientSession(auto_decompress=False) as client,
        client.request(method, link.url + path, data=data, headers=wanted) as response,
    ):
        return Reply(response.status, await response.read(), dict(response.headers))


def form(reply: Reply) -> dict[str, Any]:
    """What a client decides by: not the names and numbers in the message."""
    status = json.loads(reply.body)
    details = status.get("details") or {}
    return {
        "http": reply.status,
        "code": status["code"],
        "reason": status.get("reason"),
        "kind": (status["kind"], status["apiVersion"], status["status"]),
        "causes": [cause.get("reason", "") for cause in details.get("causes", ())],
        "retry": "Retry-After" in reply.headers or "retryAfterSeconds" in details,
        "details": {key: details.get(key) for key in ("name", "kind")},
    }


def eviction(scene: Scene, pod: Json) -> tuple[str, Json]:
    name = pod["metadata"]["name"]
    return scene.path("pods", name) + "/eviction", {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": scene.namespace},
    }


async def test_what_passes_is_what_the_server_said(scene: Scene) -> None:
    for number in range(40):
        body = {"metadata": {"name": f"m-{number}"}, "data": {"filler": "x" * 5000}}
        await scene.direct.create(scene.path("configmaps"), body)
    link = await scene.proxy.link("a")
    plain = await ask(link, "GET", scene.path("configmaps"), Accept_Encoding="identity")
    packed = await ask(link, "GET", scene.path("configmaps"), Accept_Encoding="gzip")
    assert json.loads(plain.body)["items"] == (await scene.direct.get(scene.path("configmaps")))["items"]
    assert packed.headers["Content-Encoding"] == "gzip", "the server compresses answers beyond 128 KiB"
    assert len(packed.body) < len(plain.body)


async def test_a_conflict(scene: Scene) -> None:
    await scene.direct.create(scene.path("configmaps"), {"metadata": {"name": "m"}})
    link = await scene.proxy.link("a")
    patch = {"metadata": {"resourceVersion": "1"}}
    merge = "application/merge-patch+json"
    real = await ask(link, "PATCH", scene.path("configmaps", "m"), patch, Content_Type=merge)
    assert form(real) == form(answers.conflict(Call("patch", "configmaps", name="m")))


@pytest.mark.parametrize(
    ("budgets", "answer"), [(["one"], answers.budget_exhausted), (["one", "two"], answers.two_budgets)]
)
async def test_evictions_that_budgets_forbid(scene: Scene, budgets: list[str], answer: Any) -> None:
    pods = await scene.deploy(replicas=2)
    for name in budgets:
        await scene.budget(name, max_unavailable=0)
    link = await scene.proxy.link("a")
    real = await ask(link, "POST", *eviction(scene, pods[0]))
    assert form(real) == form(answer(Call("create", "pods", "eviction")))


async def test_forbidden(scene: Scene, control_plane: ControlPlane) -> None:
    link = await scene.proxy.link("a", token=control_plane.token_for("somebody"))
    real = await ask(link, "GET", "/api/v1/nodes")
    injected = answers.forbidden(Call("list", "nodes"))
    assert form(real) == form(injected)
    alike = json.loads(injected.body)["message"].replace('"plimsoll"', '"somebody"')
    assert json.loads(real.body)["message"] == alike


async def test_the_token_that_leads_astray_is_one_that_the_server_takes(scene: Scene) -> None:
    """A client that follows it gets objects, from another moment: the trap is real."""
    for number in range(3):
        await scene.direct.create(scene.path("configmaps"), {"metadata": {"name": f"m-{number}"}})
    link = await scene.proxy.link("a")
    page = json.loads((await ask(link, "GET", scene.path("configmaps") + "?limit=1")).body)
    params = {"limit": "1", "continue": page["metadata"]["continue"]}
    refused = json.loads(answers.expired_page(Call("list", "configmaps", params=params)).body)
    await scene.direct.create(scene.path("configmaps"), {"metadata": {"name": "m-1-made-since"}})
    token = refused["metadata"]["continue"]

    async def followed() -> bool:
        found = await scene.direct.get(scene.path("configmaps"), {"continue": token})
        return "m-1-made-since" in {item["metadata"]["name"] for item in found["items"]}

    await eventually(followed)
