"""Two clusters that are asked the same: the embedded one, and the real control plane, which is right wherever they differ.

A scenario talks to a `Side` and writes down what matters of each answer. Names, UIDs, revisions and moments differ between any two
clusters, so they are replaced by words before the two accounts are compared. The embedded cluster speaks as one minor of Kubernetes
does; where the real one is of another, the values that refusals quote are left out, and all else is compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import aiohttp

from plimsoll.embedded_cluster.api.discovery import VERSION
from plimsoll.embedded_cluster.api.kinds import NAMESPACES as _NAMESPACE
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from plimsoll.embedded_cluster.http import HttpServer, call_webhook
from plimsoll.runtime.clock import RealClock
from tests.eventually import eventually
from tests.faults.upstream import Upstream
from tools.controlplane.cluster import ControlPlane
from tools.controlplane.versions import minor_of

Json = dict[str, Any]
POOL = "plimsoll.test/pool"
_RECORDS = Path(__file__).with_name("recorded")
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
BRIEF = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_REVISION = re.compile(r"(ResourceVersion in [a-z ]+[:( ]+|resource version: )\d+( \(\d+\))?")
# Older minors write some values as Go would, `map[string]string{"a":"b"}` or `0x0`, newer ones as JSON.
_QUOTED_VALUE = re.compile(r"(Invalid value: ).+?(?=: )")
EMBEDDED_MINOR = minor_of(VERSION.removeprefix("v"))


class Side:
    def __init__(
        self,
        name: str,
        minor: str,
        kubeconfig: Path,
        upstream: Upstream,
        namespace: str,
        add_nodes: Callable[[str], Awaitable[list[str]]],
    ) -> None:
        self.name = name
        self.minor = minor  # of Kubernetes
        self.kubeconfig = kubeconfig
        self.upstream = upstream
        self.namespace = namespace
        self.account: list[Any] = []
        self._words: dict[str, str] = {}
        self._add_nodes = add_nodes
        self._session = aiohttp.ClientSession(
            headers={**upstream.headers(), "User-Agent": "conformance/1"},
            connector=aiohttp.TCPConnector(ssl=upstream.tls if upstream.tls is not None else True, limit=0),
            timeout=aiohttp.ClientTimeout(total=60),
        )

    async def close(self) -> None:
        await self._session.close()

    def path(self, plural: str, name: str = "", part: str = "", *, group: str = "") -> str:
        """In this side's namespace; `group` with its version."""
        parts = ["apis", group] if group else ["api", "v1"]
        parts += ["namespaces", self.namespace, plural, name, part]
        return "/" + "/".join(one for one in parts if one)

    async def add_nodes(self, line: str) -> list[str]:
        """Nodes of this scenario alone: pods reach them by `pool()`."""
        return await self._add_nodes(f"{line} label:{POOL}={self.namespace}")

    def pool(self) -> Json:
        return {"nodeSelector": {POOL: self.namespace}}

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        form: str = "application/json",
        accept: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> tuple[int, Json]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": form, "Accept": accept}
        async with self._session.request(
            method, self.upstream.url + path, data=data, headers=headers, params=params
        ) as response:
            text = await response.read()
            return response.status, json.loads(text) if text.startswith(b"{") else {"text": text.decode()}

    async def tell(
        self, what: str, method: str, path: str, body: Any = None, *, show: tuple[str, ...] = (), **more: Any
    ) -> Json:
        """Ask, and write down the answer: its code and, of a refusal, all that a client decides by; else the fields in `show`."""
        code, answer = await self.ask(method, path, body, **more)
        entry: Json = {"what": what, "code": code}
        if answer.get("kind") == "Status":
            details = answer.get("details") or {}
            entry |= {
                "reason": answer.get("reason", ""),
                "message": self._plain(answer.get("message", "")),
                # Some rules of the real server are asked twice, and so tell twice.
                "causes": [
                    json.loads(one) for one in dict.fromkeys(self._written(one) for one in details.get("causes") or ())
                ],
                "about": self._plain([details.get(field, "") for field in ("name", "group", "kind")]),
            }
        entry |= {field: self._plain(found(answer, field)) for field in show}
        self.account.append(entry)
        return answer

    def note(self, what: str, value: Any) -> None:
        self.account.append({what: self._plain(value)})

    def _plain(self, value: Any) -> Any:
        return json.loads(self._written(value))

    def _written(self, value: Any) -> str:
        text = json.dumps(value, sort_keys=True)
        for name, word in {**self._words, self.namespace: "NAMESPACE"}.items():
            text = text.replace(name, word)
        return _REVISION.sub(r"\1REVISION", _UID.sub("UID", text))

    def call(self, name: str, word: str) -> None:
        """What a name that was made up stands for."""
        self._words[name] = word

    # ── watching and waiting ─────────────────────────────────────────────────────────────────────────────────────────

    async def events(self, path: str, params: Mapping[str, str], *, until: Callable[[list[Json]], bool]) -> list[Json]:
        """The events of a watch until they are enough."""
        seen: list[Json] = []
        asked = {"watch": "true", "timeoutSeconds": "30", **params}
        async with self._session.get(self.upstream.url + path, params=asked) as response:
            rest = b""
            if response.status != 200:
                return [{"type": f"HTTP {response.status}", "object": await response.json()}]
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                seen += [json.loads(line) for line in lines if line]
                if until(seen):
                    break
        return seen

    async def until(self, path: str, condition: Callable[[Json], Any], what: str) -> Json:
        """The object at the path once it is as it should be."""

        async def look() -> Json | None:
            code, answer = await self.ask("GET", path)
            return answer if code == 200 and condition(answer) else None

        answer: Json = await eventually(look, f"{what} ({self.name})")
        return answer

    async def gone(self, path: str) -> None:
        async def look() -> bool:
            return (await self.ask("GET", path))[0] == 404

        await eventually(look, f"{path} is gone ({self.name})")


def found(document: Any, path: str) -> Any:
    """The value at `spec.containers.0.name`; None where there is none."""
    for field in path.split("."):
        if isinstance(document, list):
            document = document[int(field)] if int(field) < len(document) else None
        elif isinstance(document, dict):
            document = document.get(field)
        else:
            return None
    return document


Scenario = Callable[[Side], Awaitable[None]]


@asynccontextmanager
async def embedded_side(directory: Path) -> AsyncIterator[Side]:
    async with EmbeddedCluster(RealClock(), ask=call_webhook) as cluster, HttpServer(cluster.api) as server:
        server.write_kubeconfig(directory / "kubeconfig")
        await cluster.create(_NAMESPACE, {"metadata": {"name": "embedded-test"}})
        upstream, config = Upstream(server.url), directory / "kubeconfig"
        side = Side("embedded", EMBEDDED_MINOR, config, upstream, "embedded-test", cluster.add_nodes)
        try:
            yield side
        finally:
            await side.close()


@asynccontextmanager
async def real_side(
    cluster: ControlPlane, namespace: str, add_nodes: Callable[[str], list[str]]
) -> AsyncIterator[Side]:
    async def add(line: str) -> list[str]:
        return add_nodes(line)

    minor, upstream = cluster.binaries.versions.kubernetes_minor, Upstream.from_kubeconfig(cluster.kubeconfig)
    side = Side("real", minor, cluster.kubeconfig, upstream, namespace, add)
    try:
        yield side
    finally:
        await side.close()


@asynccontextmanager
async def installed(side: Side, *definitions: Json) -> AsyncIterator[None]:
    """Custom kinds that are there for as long as the block lasts."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

    def is_established(found: Json) -> bool:
        conditions = (found.get("status") or {}).get("conditions") or ()
        return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)

    for definition in definitions:
        await side.ask("POST", path, definition)
        await side.until(f"{path}/{definition['metadata']['name']}", is_established, "the kind is served")
        spec = definition["spec"]
        listed = side.path(spec["names"]["plural"], group=f"{spec['group']}/{spec['versions'][0]['name']}")
        await side.until(listed, lambda found: "items" in found, "the kind is listed")
    try:
        yield
    finally:
        for definition in definitions:
            await side.ask("DELETE", f"{path}/{definition['metadata']['name']}")
            await side.gone(f"{path}/{definition['metadata']['name']}")


async def same(scenario: Scenario, both: tuple[Side, Side]) -> None:
    """Run a scenario on both sides, one after the other, and compare what they have to tell, entry by entry."""
    embedded, real = both
    await scenario(real)
    await scenario(embedded)
    assert real.account, "a scenario that writes nothing down shows nothing"
    theirs = comparable(real.account, real.minor)
    differences = compared(comparable(embedded.account, real.minor), theirs)
    assert not differences, "the embedded cluster answers otherwise than the real one:\n" + "\n".join(differences)
    known = recorded(scenario)
    if known is not None:
        known = comparable(known, real.minor)
        outdated = [f"recorded: {one}\nreal:     {other}" for one, other in zip_longest(known, theirs) if one != other]
        assert not outdated, f"{record_of(scenario)} is outdated; write it anew:\n" + "\n".join(outdated)


def comparable(account: list[Any], minor: str) -> list[Any]:
    """What of an account must be equal on the embedded cluster and on a real one of this minor."""
    return account if minor == EMBEDDED_MINOR else [_without_quoted_values(entry) for entry in account]


def _without_quoted_values(value: Any) -> Any:
    if isinstance(value, dict):
        return {field: _without_quoted_values(inner) for field, inner in value.items()}
    if isinstance(value, list):
        return [_without_quoted_values(inner) for inner in value]
    return _QUOTED_VALUE.sub(r"\1VALUE", value) if isinstance(value, str) else value


def record_of(scenario: Scenario) -> Path:
    """Where it stands what the real control plane has to tell of a scenario."""
    return _RECORDS / f"{scenario.__name__}.json"


def recorded(scenario: Scenario) -> list[Any] | None:
    path = record_of(scenario)
    return json.loads(path.read_text()) if path.exists() else None


def compared(ours: list[Any], theirs: list[Any]) -> list[str]:
    pairs = zip_longest(ours, theirs)
    return [f"embedded: {mine}\nreal:     {real}" for mine, real in pairs if mine != real]
