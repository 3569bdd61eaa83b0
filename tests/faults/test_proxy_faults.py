"""Each fault of the proxy really happens, and in the form in which an API server or a network would show it."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import aiohttp
import pytest

from tests.faults import answers
from tests.faults.faults import (
    Answer,
    CrashAfter,
    CrashBefore,
    Fault,
    Hold,
    Lens,
    Misreport,
    ResetAfter,
    ResetBefore,
    StaleList,
)
from tests.faults.proxy import Link, Proxy
from tests.faults.record import Record
from tests.faults.rules import Rules, next_page, on, works
from tests.faults.scripted import ScriptedServer

MAPS = "/api/v1/namespaces/shop/configmaps"
EVICTION = "/api/v1/namespaces/shop/pods/web-1/eviction"
NODES = "/api/v1/nodes"


async def ask(link: Link, method: str, path: str, body: bytes | None = None) -> tuple[int, Any, dict[str, str]]:
    async with (
        aiohttp.ClientSession() as client,
        client.request(method, link.url + path, data=body) as response,
    ):
        text = await response.text()
        return response.status, json.loads(text) if text.startswith("{") else text, dict(response.headers)


@pytest.mark.parametrize("fault", [CrashBefore(), ResetBefore()])
async def test_before_a_write_is_sent(
    fault: Fault, scripted: ScriptedServer, to_scripted: Proxy, rules: Rules, record: Record
) -> None:
    rules.add(works, fault, times=1)
    link = await to_scripted.link("a")
    with pytest.raises(aiohttp.ClientError):
        await ask(link, "POST", MAPS, b"{}")
    assert scripted.asked == []
    [exchange] = record
    assert exchange.told is None and not exchange.sent and not exchange.applied
    assert link.crashed.is_set() == isinstance(fault, CrashBefore)


@pytest.mark.parametrize("fault", [CrashAfter(), ResetAfter()])
async def test_after_a_write_is_applied(
    fault: Fault, scripted: ScriptedServer, to_scripted: Proxy, rules: Rules, record: Record
) -> None:
    rules.add(works, fault, times=1)
    scripted.answer(MAPS, b'{"metadata":{"uid":"u-1"}}', status=201)
    link = await to_scripted.link("a")
    with pytest.raises(aiohttp.ClientError):
        await ask(link, "POST", MAPS, b"{}")
    assert len(scripted.asked) == 1
    [exchange] = record
    assert exchange.applied and exchange.told is None
    assert exchange.result == {"metadata": {"uid": "u-1"}}
    assert link.crashed.is_set() == isinstance(fault, CrashAfter)


async def test_a_crash_at_the_third_write(scripted: ScriptedServer, to_scripted: Proxy, rules: Rules) -> None:
    scripted.answer(MAPS, b"{}")
    rules.add(works, CrashBefore(), skip=2, times=1)
    link = await to_scripted.link("a")
    stopped: list[str] = []
    link.on_crash = lambda: stopped.append(link.name)
    await ask(link, "POST", MAPS, b"{}")
    await ask(link, "GET", MAPS)
    await ask(link, "POST", MAPS, b"{}")
    with pytest.raises(aiohttp.ClientError):
        await ask(link, "POST", MAPS, b"{}")
    assert stopped == ["a"]
    assert len(scripted.asked) == 3


async def test_after_a_crash_nothing_of_the_operator_reaches_the_server(
    scripted: ScriptedServer, to_scripted: Proxy
) -> None:
    scripted.answer(MAPS, b"{}")
    link, other = await to_scripted.link("a"), await to_scripted.link("b")
    async with aiohttp.ClientSession() as client:
        async with client.get(link.url + MAPS) as response:
            await response.read()
        watch = await client.get(link.url + MAPS + "?watch=1")
        link.crash()
        with pytest.raises(aiohttp.ClientError):
            await client.post(link.url + MAPS, data=b"{}")  # over the connection that is still open
        with pytest.raises(aiohttp.ClientError):
            await asyncio.wait_for(watch.content.read(), 60)
        watch.close()
    with pytest.raises(aiohttp.ClientError):
        await ask(link, "POST", MAPS, b"{}")  # over a new one
    assert [method for method, *_ in scripted.asked] == ["GET", "GET"]
    assert (await ask(other, "POST", MAPS, b"{}"))[0] == 200


async def test_a_gateway_timeout_after_the_write_was_applied(
    scripted: ScriptedServer, to_scripted: Proxy, rules: Rules, record: Record
) -> None:
    rules.add(works, Misreport(answers.timed_out), times=1)
    scripted.answer(MAPS, b"{}", status=201)
    link = await to_scripted.link("a")
    status, body, _ = await ask(link, "POST", MAPS, b"{}")
    assert (status, body["reason"], body["code"]) == (504, "Timeout", 504)
    [exchange] = record
    assert exchange.applied and exchange.told == 504 and exchange.answered == 201


async def test_conflicts_end_after_n(scripted: ScriptedServer, to_scripted: Proxy, rules: Rules) -> None:
    rules.add(on("patch", "configmaps"), Answer(answers.conflict), times=3)
    scripted.answer(f"{MAPS}/m", b"{}")
    link = await to_scripted.link("a")
    seen = [await ask(link, "PATCH", f"{MAPS}/m", b"{}") for _ in range(4)]
    assert [status for status, *_ in seen] == [409, 409, 409, 200]
    body = seen[0][1]
    assert (body["kind"], body["reason"], body["details"]["name"]) == ("Status", "Conflict", "m")
    assert len(scripted.asked) == 1


async def test_evictions_are_refused_for_ever(scripted: ScriptedServer, to_scripted: Proxy, rules: Rules) -> None:
    rules.add(on("create", "pods/eviction"), Answer(answers.budget_exhausted))
    link = await to_scripted.link("a")
    for _ in range(3):
        status, body, headers = await ask(link, "POST", EVICTION, b"{}")
        assert (status, body["reason"]) == (429, "TooManyRequests")
        assert body["details"]["causes"][0]["reason"] == "DisruptionBudget"
        assert "Retry-After" not in headers
    assert scripted.asked == []


async def test_two_budgets_are_a_500_without_a_reason(to_scripted: Proxy, rules: Rules) -> None:
    rules.add(on("create", "pods/eviction"), Answer(answers.two_budgets))
    status, body, _ = await ask(await to_scripted.link("a"), "POST", EVICTION, b"{}")
    assert status == 500
    assert "reason" not in body
    assert "more than one PodDisruptionBudget" in body["message"]


async def test_throttled_and_failing_reads(scripted: ScriptedServer, to_scripted: Proxy, rules: Rules) -> None:
    scripted.answer(MAPS, b'{"items":[]}')
    rules.add(on("list", "configmaps"), Answer(answers.throttled), times=1)
    rules.add(on("list", "configmaps"), Answer(answers.internal_error), skip=1, times=1)
    rules.add(on("list", "configmaps"), Answer(answers.unavailable), skip=2, times=1)
    rules.add(on("list", "configmaps"), Answer(answers.forbidden), skip=3, times=1)
    link = await to_scripted.link("a")
    seen = [await ask(link, "GET", MAPS) for _ in range(5)]
    assert [status for status, *_ in seen] == [429, 500, 503, 403, 200]
    assert seen[0][2]["Retry-After"] == "1"
    assert seen[3][1]["reason"] == "Forbidden"


async def test_a_request_that_its_operator_gave_up_arrives_late(
    scripted: ScriptedServer, to_scripted: Proxy, rules: Rules, record: Record
) -> None:
    held = Hold()
    rules.add(works, held)
    scripted.answer(MAPS, b"{}", status=201)
    link = await to_scripted.link("a")
    writing = asyncio.create_task(ask(link, "POST", MAPS, b"{}"))
    await record.until(lambda record: len(record) == 1)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    assert scripted.asked == []
    held.released.set()
    await record.until(lambda record: next(iter(record)).applied)
    assert len(scripted.asked) == 1


async def test_only_a_read_that_accepts_any_version_is_stale(
    scripted: ScriptedServer, to_scripted: Proxy, rules: Rules
) -> None:
    scripted.answer(MAPS, b'{"items":[]}')
    rules.add(on("list get watch"), StaleList("41"))
    link = await to_scripted.link("a")
    for query in ("?resourceVersion=0&limit=5", "", "?limit=5", "?resourceVersion=7&resourceVersionMatch=NotOlderThan"):
        await ask(link, "GET", MAPS + query)
    stale, *fresh = [path for _, path, *_ in scripted.asked]
    assert stale == f"{MAPS}?resourceVersion=41&limit=5&resourceVersionMatch=Exact"
    assert fresh == [MAPS, f"{MAPS}?limit=5", f"{MAPS}?resourceVersion=7&resourceVersionMatch=NotOlderThan"]


async def test_an_expired_page_offers_a_token_that_leads_astray(to_scripted: Proxy, rules: Rules) -> None:
    rules.add(next_page("configmaps"), Answer(answers.expired_page))
    place = {"v": "meta.k8s.io/v1", "rv": 41, "start": "shop/m-500"}
    token = base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")
    status, body, _ = await ask(await to_scripted.link("a"), "GET", f"{MAPS}?limit=500&continue={token}")
    assert (status, body["reason"]) == (410, "Expired")
    offered = body["metadata"]["continue"]
    assert json.loads(base64.urlsafe_b64decode(offered + "==")) == place | {"rv": -1}


def _not_ready(node: dict[str, Any]) -> dict[str, Any]:
    return node | {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}


def _nothing(node: dict[str, Any]) -> None:
    return None


async def test_a_lens_shows_every_node_another_way(scripted: ScriptedServer, to_scripted: Proxy, rules: Rules) -> None:
    node = {"metadata": {"name": "n-1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    listing = {"metadata": {"resourceVersion": "7"}, "items": [node]}
    scripted.answer(NODES, json.dumps(listing).encode())
    scripted.answer(f"{NODES}/n-1", json.dumps(node).encode())
    rule = rules.add(on("get list watch", "nodes"), Lens(_not_ready))
    link = await to_scripted.link("a")
    _, listed, _ = await ask(link, "GET", NODES)
    assert listed["metadata"] == {"resourceVersion": "7"}
    assert listed["items"] == [_not_ready(node)]
    assert (await ask(link, "GET", f"{NODES}/n-1"))[1] == _not_ready(node)
    rules.drop(rule)
    rules.add(on("get list watch", "nodes"), Lens(_nothing))
    _, listed, _ = await ask(link, "GET", NODES)
    assert listed["items"] == [] and listed["metadata"] == {"resourceVersion": "7"}
    assert (await ask(link, "GET", f"{NODES}/n-1"))[0] == 404
