"""VPSie as far as its API is known, on loopback, with everything that goes wrong with it on demand.

It keeps an account: who may log in, what may be had, and the machines. Time is the test's. It is as strict as the real one where
that is known (tokens end, a hundred requests in any minute, a quota), and as careless: lists that lag, replies that are lost
after the deed, an order answered with just `true`, errors under HTTP 200.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from aiohttp import web

from tests.vpsie.clock import SkippingClock

REQUESTS_A_MINUTE = 100


@dataclass
class Vm:
    id: int
    body: Mapping[str, Any]
    made_at: float
    boots: bool = True
    deleted_at: float | None = None


@dataclass
class Node:
    """Of a managed cluster."""

    identifier: str
    group: int
    ordered_at: float
    deleted: bool = False


@dataclass
class VpsieCluster:
    nodes: list[Node] = field(default_factory=list)
    groups: dict[int, tuple[str, int]] = field(default_factory=dict)  # number → name and size

    @property
    def alive(self) -> list[Node]:
        return [node for node in self.nodes if not node.deleted]


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


# What goes wrong with one request. "lose reply": it is carried out, and the connection ends. "lose request": it ends before.
Fault = Literal["lose reply", "lose request", "hang", "huge", "html", "garbage"] | tuple[int, Any]


@dataclass
class Emulator:
    clock: SkippingClock
    clients: dict[str, str] = field(default_factory=lambda: {"our-client-id": "our-client-secret"})
    tokens: dict[str, float] = field(default_factory=dict)  # token → when it ends
    token_seconds: float = 3600.0
    offerings: list[dict[str, Any]] = field(default_factory=list)
    quota: int = 1000
    sold_out: set[str] = field(default_factory=set)
    boot_seconds: float = 60.0
    never_boot: set[str] = field(default_factory=set)  # hostnames
    lag_seconds: float = 0.0  # how far lists are behind
    order_reply: Literal["machine", "data", "true", "bare true"] = "data"
    keeps_tags: bool = True
    keeps_notes: bool = True
    page_size: int = 0
    page_shape: Literal["pagination", "total"] = "pagination"
    throttles: bool = True
    machines: list[Vm] = field(default_factory=list)
    clusters: dict[str, VpsieCluster] = field(default_factory=dict)
    node_seconds: float = 0.0  # how long an ordered node takes to be in its cluster's list
    requests: list[Seen] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        self._faults: dict[str, deque[Fault]] = {}
        self._recent: deque[float] = deque()
        self._next_id = 100
        self._next_token = 0
        self.hanging = asyncio.Event()
        self._over = asyncio.Event()

    def fail(self, request: str, *faults: Fault, times: int = 1) -> None:
        """The next requests that begin so ("POST /vm") fail, one fault each."""
        self._faults.setdefault(request, deque()).extend(faults * times)

    def count(self, request: str = "") -> int:
        return sum(f"{seen.method} {seen.path}".startswith(request) for seen in self.requests)

    @property
    def alive(self) -> list[Vm]:
        return [vm for vm in self.machines if vm.deleted_at is None]

    @property
    def keys(self) -> Counter[str]:
        """How many machines that cost money carry each key, by the tag that we sent."""
        tags = [tag for vm in self.alive for tag in vm.body["tags"] if tag.startswith("plimsoll-key-")]
        return Counter(tag.removeprefix("plimsoll-key-") for tag in tags)

    # ── the server ───────────────────────────────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Emulator]:
        app = web.Application(client_max_size=1 << 20)
        app.router.add_route("*", "/v2/{rest:.*}", self._serve)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/v2"
        try:
            yield self
        finally:
            self._over.set()
            await runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path = request.path.removeprefix("/v2")
        is_form = request.content_type == "application/x-www-form-urlencoded"
        text = await request.text()
        body = dict(await request.post()) if is_form else json.loads(text or "null")
        self.requests.append(Seen(request.method, path, dict(request.query), dict(request.headers), body))
        if self.throttles and (response := self._throttled()):
            return response
        match self._fault(f"{request.method} {path}"):
            case "lose request":
                return _hang_up(request)
            case "lose reply":
                self._answer(request, path, body)
                return _hang_up(request)
            case "hang":
                self._answer(request, path, body)
                self.hanging.set()
                await self._over.wait()
                return _hang_up(request)
            case "huge":
                self._answer(request, path, body)
                return web.Response(body=b" " * (10 * 1024 * 1024 + 1) + b"{}", content_type="application/json")
            case "html":
                return web.Response(status=404, text="<h1>Not here</h1>", content_type="text/html")
            case "garbage":
                self._answer(request, path, body)
                return web.Response(text="{oh", content_type="application/json")
            case (int(status), document):
                headers = document.pop("headers", {}) if isinstance(document, dict) else {}
                return web.json_response(document, status=status, headers=headers)
            case _:
                return self._answer(request, path, body)

    def _fault(self, request: str) -> Fault | None:
        for beginning, faults in self._faults.items():
            if request.startswith(beginning) and faults:
                return faults.popleft()
        return None

    def _throttled(self) -> web.Response | None:
        now = self.clock.monotonic()
        while self._recent and now - self._recent[0] >= 60:
            self._recent.popleft()
        if len(self._recent) >= REQUESTS_A_MINUTE:
            wait = int(60 - (now - self._recent[0])) + 1
            return _no(429, "Too many requests", headers={"Retry-After": str(wait)})
        self._recent.append(now)
        return None

    # ── the API ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _answer(self, request: web.Request, path: str, body: Any) -> web.Response:
        if path == "/auth/from/api":
            return self._log_in(body)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.tokens.get(token, 0.0) <= self.clock.monotonic():
            return _no(401, "Unauthenticated: token expired or unknown")
        match request.method, path.strip("/").split("/"):
            case "GET", ["vm"]:
                return self._page(request, [self._row(vm) for vm in self._listed()])
            case "POST", ["vm"]:
                return self._order(body)
            case "GET", ["vm", number]:
                found = [vm for vm in self.alive if str(vm.id) == number]
                return _yes(self._row(found[0])) if found else _no(404, "Resource not found")
            case "DELETE", ["vm", number]:
                for vm in self.alive:
                    if str(vm.id) == number:
                        vm.deleted_at = self.clock.monotonic()
                        return _yes(data=True)
                return _no(404, "Resource not found")
            case "GET", ["offerings"]:
                return self._page(request, self.offerings)
            case "POST", ["k8s", "offers"]:
                return _yes([row for row in self.offerings if row["datacenter_id"] == body["dcIdentifier"]])
            case "POST", ["k8s", "cluster", "add", "group"]:
                groups = self.clusters[body["clusterIdentifier"]].groups
                groups[len(groups) + 1] = (body["groupName"], body["KubeSizeID"])
                return _yes({"groupId": str(len(groups))})
            case _, ["k8s", "node", "groups", "byClusterId", name] if name in self.clusters:
                groups = self.clusters[name].groups
                return _yes([{"id": n, "group_name": g, "boxsize_id": size} for n, (g, size) in groups.items()])
            case method, ["k8s", "cluster", "byId", name, *rest] if name in self.clusters:
                return self._cluster(method, self.clusters[name], rest, body)
            case _, ["k8s", *_]:
                return _no(404, "Cluster not found")
            case _:
                return web.Response(status=404, text="<h1>Cannot find that</h1>", content_type="text/html")

    def _log_in(self, form: Mapping[str, str]) -> web.Response:
        name = form.get("clientId", "")
        if name not in self.clients or self.clients[name] != form.get("clientSecret"):
            # Careless services repeat what they were given.
            return _no(401, f"Invalid credentials {form.get('clientId')} / {form.get('clientSecret')}")
        self._next_token += 1
        token = f"token-{self._next_token}-of-{name}"
        self.tokens[token] = self.clock.monotonic() + self.token_seconds
        expires = (self.clock.now() + timedelta(seconds=self.token_seconds)).isoformat()
        return web.json_response({"error": False, "accessToken": {"token": token, "expires": expires}})

    def _order(self, body: Mapping[str, Any]) -> web.Response:
        if body.get("offering_id") in self.sold_out:
            return _no(422, f"Offering {body['offering_id']} is currently not available in this datacenter")
        if len(self.alive) >= self.quota:
            # Under HTTP 200, as this API does now and then.
            return web.json_response(
                {"error": True, "code": 403, "message": f"You have reached the limit of {self.quota} servers"}
            )
        self._next_id += 1
        boots = body.get("hostname") not in self.never_boot
        vm = Vm(self._next_id, body, self.clock.monotonic(), boots)
        self.machines.append(vm)
        match self.order_reply:
            case "true":
                return _yes(data=True)
            case "bare true":
                return web.json_response(True)
            case "machine":
                return web.json_response(self._row(vm))
            case _:
                return _yes(self._row(vm))

    def _cluster(self, method: str, cluster: VpsieCluster, rest: list[str], body: Any) -> web.Response:
        match method, rest:
            case "GET", []:
                now = self.clock.monotonic()
                shown = [node for node in cluster.alive if node.ordered_at + self.node_seconds <= now]
                master = {"identifier": "uuid-master", "hostname": "Master-1", "node_type": 1}
                return _yes({"cluster_name": "c", "nodes": [master, *(_node_row(node) for node in shown)]})
            case "POST", ["add", "slave", "group", number] if int(number) in cluster.groups:
                if len(cluster.alive) >= self.quota:
                    return _no(403, f"You have reached the limit of {self.quota} nodes")
                self._next_id += 1
                node = Node(f"uuid-{self._next_id}", int(number), self.clock.monotonic())
                cluster.nodes.append(node)
                return _yes(data=True) if self.order_reply == "true" else _yes(_node_row(node))
            case "DELETE", ["delete", "slave"]:
                for node in cluster.alive:
                    if node.identifier == body["identifier"]:
                        node.deleted = True
                        return _yes(data=True)
                return _no(404, "Node not found")
            case _:
                return _no(404, "Not found")

    def _listed(self) -> list[Vm]:
        then = self.clock.monotonic() - self.lag_seconds
        return [vm for vm in self.machines if vm.made_at <= then and (vm.deleted_at is None or vm.deleted_at > then)]

    def _row(self, vm: Vm) -> dict[str, Any]:
        age = self.clock.monotonic() - vm.made_at
        status = "running" if vm.boots and age >= self.boot_seconds else "provisioning"
        return {
            "id": vm.id,
            "identifier": f"uuid-{vm.id}",
            "hostname": vm.body.get("hostname"),
            "status": status,
            "default_ip": f"192.0.2.{vm.id % 250}" if status == "running" else None,
            "boxsize_id": 7,
            "created_on": "2026-03-01T12:00:00Z",
            "tags": vm.body.get("tags") if self.keeps_tags else None,
            "notes": vm.body.get("notes") if self.keeps_notes else None,
            "is_deleted": 0,
        }

    def _page(self, request: web.Request, rows: list[dict[str, Any]]) -> web.Response:
        if not self.page_size:
            return _yes(rows)
        number = int(request.query.get("page", "1"))
        part = rows[(number - 1) * self.page_size : number * self.page_size]
        if self.page_shape == "total":
            return web.json_response({"error": False, "data": part, "total": len(rows)})
        pages = {
            "total": len(rows),
            "count": len(part),
            "per_page": self.page_size,
            "current_page": number,
            "total_pages": -(-len(rows) // self.page_size),
        }
        return web.json_response({"error": False, "data": part, "pagination": pages})


def _node_row(node: Node) -> dict[str, Any]:
    return {"identifier": node.identifier, "hostname": f"K8s-Slave-{node.identifier}", "default_ip": "192.0.2.9"}


def _yes(data: Any) -> web.Response:
    return web.json_response({"error": False, "data": data})


def _no(status: int, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.json_response({"error": True, "code": status, "message": message}, status=status, headers=headers)


def _hang_up(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
