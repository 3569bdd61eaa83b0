"""Without a rule the proxy is not there: bytes, headers, query and timing are the server's and the operator's own."""

from __future__ import annotations

import asyncio
import gzip
import json

import aiohttp
import pytest
import yaml
from yarl import URL

from tests.faults.calls import Call
from tests.faults.proxy import Proxy
from tests.faults.record import Record
from tests.faults.scripted import ScriptedServer, event

PODS = "/api/v1/namespaces/shop/pods"


async def test_replies_are_passed_on_byte_by_byte(scripted: ScriptedServer, to_scripted: Proxy) -> None:
    odd = b'{ "items" : [ ] ,\n\t"metadata":{"resourceVersion":"7"}}  '
    scripted.answer(PODS, odd, headers={"Content-Type": "application/json", "Audit-Id": "a-1"})
    link = await to_scripted.link("a")
    async with aiohttp.ClientSession() as client, client.get(link.url + PODS) as response:
        assert response.status == 200
        assert await response.read() == odd
        assert response.headers["Audit-Id"] == "a-1"


async def test_compressed_replies_stay_compressed(scripted: ScriptedServer, to_scripted: Proxy) -> None:
    packed = gzip.compress(b'{"items":[]}' * 1000)
    scripted.answer(PODS, packed, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"})
    link = await to_scripted.link("a")
    async with aiohttp.ClientSession(auto_decompress=False) as client, client.get(link.url + PODS) as response:
        assert await response.read() == packed
        assert response.headers["Content-Encoding"] == "gzip"


async def test_requests_are_passed_on_as_asked(scripted: ScriptedServer, to_scripted: Proxy) -> None:
    scripted.answer(f"{PODS}/web-1", b"{}")
    link = await to_scripted.link("a")
    patch = b'{"metadata" : {"annotations":{"x":"\xc3\xa9"}}}'
    headers = {"Content-Type": "application/merge-patch+json", "User-Agent": "plimsoll/test"}
    query = "?fieldManager=plimsoll&x=a%2Cb%20c"
    url = URL(link.url + f"{PODS}/web-1{query}", encoded=True)
    async with aiohttp.ClientSession() as client, client.patch(url, data=patch, headers=headers) as response:
        assert response.status == 200
    method, path, seen, body = scripted.asked[-1]
    assert (method, path, body) == ("PATCH", f"{PODS}/web-1{query}", patch)
    assert seen["Content-Type"] == "application/merge-patch+json"
    assert seen["User-Agent"] == "plimsoll/test"
    assert seen["Authorization"] == "Bearer of-the-proxy"


async def test_a_link_can_have_an_identity_of_its_own(scripted: ScriptedServer, to_scripted: Proxy) -> None:
    scripted.answer("/version", b"{}")
    link = await to_scripted.link("a", token="of-an-operator")
    async with aiohttp.ClientSession() as client, client.get(link.url + "/version"):
        pass
    assert scripted.asked[-1][2]["Authorization"] == "Bearer of-an-operator"


async def test_refusals_are_passed_on(scripted: ScriptedServer, to_scripted: Proxy, record: Record) -> None:
    refusal = json.dumps({"kind": "Status", "code": 409, "reason": "AlreadyExists"}).encode()
    scripted.answer(PODS, refusal, status=409)
    link = await to_scripted.link("a")
    async with aiohttp.ClientSession() as client, client.post(link.url + PODS, data=b"{}") as response:
        assert response.status == 409
        assert await response.read() == refusal
    [exchange] = record
    assert not exchange.applied
    assert exchange.told == exchange.answered == 409


async def test_each_event_passes_before_the_next_exists(scripted: ScriptedServer, to_scripted: Proxy) -> None:
    feed = scripted.feed(PODS)
    link = await to_scripted.link("a")
    async with aiohttp.ClientSession() as client, client.get(link.url + PODS + "?watch=1") as response:
        for version in range(20):
            line = event("ADDED", f"web-{version}", version)
            feed.put_nowait(line)
            # The next event is only sent once this one has arrived: a proxy that waits for more would wait for ever.
            assert await asyncio.wait_for(response.content.readuntil(b"\n"), 60) == line


async def test_half_a_line_passes_as_half_a_line(scripted: ScriptedServer, to_scripted: Proxy) -> None:
    feed = scripted.feed(PODS)
    link = await to_scripted.link("a")
    line = event("ADDED", "web-1", 5)
    async with aiohttp.ClientSession() as client, client.get(link.url + PODS + "?watch=1") as response:
        feed.put_nowait(line[:17])
        assert await asyncio.wait_for(response.content.readexactly(17), 60) == line[:17]
        feed.put_nowait(line[17:])
        feed.put_nowait(None)
        assert await asyncio.wait_for(response.content.read(), 60) == line[17:]


async def test_a_watch_that_nobody_reads_any_more_is_ended(
    scripted: ScriptedServer, to_scripted: Proxy, record: Record
) -> None:
    feed = scripted.feed(PODS)
    feed.put_nowait(event("ADDED", "web-1", 5))
    link = await to_scripted.link("a")
    async with aiohttp.ClientSession() as client, client.get(link.url + PODS + "?watch=1") as response:
        await response.content.readuntil(b"\n")
        assert not scripted.watch_ended.is_set()
        response.close()
        await asyncio.wait_for(scripted.watch_ended.wait(), 60)
    await record.until(lambda record: next(iter(record)).ended is not None)


async def test_the_record_tells_what_was_asked_and_what_came_of_it(
    scripted: ScriptedServer, to_scripted: Proxy, record: Record
) -> None:
    scripted.answer(f"{PODS}/web-1/eviction", b'{"status":"Success"}', status=201)
    scripted.answer("/apis/apps/v1/deployments", b'{"items":[]}')
    scripted.answer("/api/v1/namespaces/shop", b"{}")
    link = await to_scripted.link("a")
    eviction = json.dumps({"deleteOptions": {"preconditions": {"uid": "u-1"}}}).encode()
    async with aiohttp.ClientSession() as client:
        for method, path, body in (
            ("POST", f"{PODS}/web-1/eviction", eviction),
            ("GET", "/apis/apps/v1/deployments?limit=500", None),
            ("GET", "/api/v1/namespaces/shop", None),
        ):
            async with client.request(method, link.url + path, data=body):
                pass
    evicted, listed, got = record
    assert (evicted.call.verb, evicted.call.resource, evicted.call.subresource) == ("create", "pods", "eviction")
    assert (evicted.call.namespace, evicted.call.name, evicted.call.required_uid) == ("shop", "web-1", "u-1")
    assert evicted.applied and evicted.call.destroys and evicted.call.works
    assert (listed.call.verb, listed.call.group, listed.call.resource) == ("list", "apps", "deployments")
    assert listed.call.params == {"limit": "500"} and not listed.applied
    assert (got.call.verb, got.call.resource, got.call.name, got.call.namespace) == ("get", "namespaces", "shop", "")
    assert all(exchange.ended is not None and exchange.call.link == "a" for exchange in record)
    assert "create pods/eviction shop/web-1 → 201" in str(record)


async def test_the_kubeconfig_of_a_link_points_at_it(to_scripted: Proxy) -> None:
    link = await to_scripted.link("a")
    config = yaml.safe_load(link.kubeconfig.read_text())
    assert config["clusters"][0]["cluster"] == {"server": link.url}
    assert link.url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    ("call", "uid", "version"),
    [
        (Call("delete", "configmaps", body=b'{"preconditions":{"uid":"u","resourceVersion":"7"}}'), "u", "7"),
        (Call("delete", "configmaps"), "", ""),
        (Call("create", "pods", "eviction", body=b'{"deleteOptions":{"preconditions":{"uid":"u"}}}'), "u", ""),
        (Call("create", "pods", "eviction", body=b'{"metadata":{"uid":"u"}}'), "", ""),
        (Call("patch", "pods", body=b'{"metadata":{"uid":"u","resourceVersion":"7"}}'), "u", "7"),
        (Call("patch", "pods", body=b'[{"op":"test","path":"/metadata/uid","value":"u"}]'), "u", ""),
        (Call("patch", "pods", body=b'[{"op":"replace","path":"/metadata/uid","value":"u"}]'), "", ""),
    ],
)
def test_what_a_write_insists_on(call: Call, uid: str, version: str) -> None:
    assert (call.required_uid, call.required_version) == (uid, version)
