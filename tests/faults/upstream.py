"""The API server itself: where it is, and a plain JSON client that reaches it past the proxy.

It is not the operator's client, on purpose: what judges the operator must not be part of it.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import yaml

Json = dict[str, Any]


@dataclass(frozen=True)
class Upstream:
    """An API server: its address, who we are to it, and how we know that it is the right one."""

    url: str
    token: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Upstream:
        """From a kubeconfig with one cluster and a bearer token, such as the control plane of the tests writes."""
        config = yaml.safe_load(path.read_text())
        cluster = config["clusters"][0]["cluster"]
        tls = None
        if cluster["server"].startswith("https://"):
            authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
            tls = ssl.create_default_context(cadata=authority)
        return cls(cluster["server"], config["users"][0]["user"].get("token", ""), tls)

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


class RefusedError(Exception):
    """The API server refused what a test asked of it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Direct:
    """JSON in, JSON out; no retries, no types."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._session = aiohttp.ClientSession(
            headers=upstream.headers(),
            connector=aiohttp.TCPConnector(ssl=upstream.tls if upstream.tls is not None else True, limit=0),
            timeout=aiohttp.ClientTimeout(total=30),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Json:
        return await self._ask("GET", path, None, params)

    async def create(self, path: str, body: Json) -> Json:
        return await self._ask("POST", path, body)

    async def patch(self, path: str, body: Json) -> Json:
        return await self._ask("PATCH", path, body, content_type="application/merge-patch+json")

    async def delete(self, path: str, body: Json | None = None) -> Json:
        return await self._ask("DELETE", path, body)

    async def watch(self, path: str, version: str) -> AsyncIterator[Json]:
        """Every event after `version`, until the server ends the stream."""
        params = {"watch": "true", "resourceVersion": version}
        patient = aiohttp.ClientTimeout(total=None)
        async with self._session.get(self._upstream.url + path, params=params, timeout=patient) as response:
            if response.status != 200:
                raise RefusedError(response.status, await response.text())
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)

    async def _ask(
        self,
        method: str,
        path: str,
        body: Json | None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type}
        url = self._upstream.url + path
        async with self._session.request(method, url, data=data, headers=headers, params=params) as response:
            text = await response.text()
            if response.status >= 300:
                raise RefusedError(response.status, text)
            found: Json = json.loads(text)
            return found
