"""The API server on loopback HTTP: what kubectl, and the operator as it is shipped, speak with."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import aiohttp
import msgspec
from aiohttp import web
from yarl import URL

from plimsoll.embedded_cluster.api.admission import Ask, UnansweredError
from plimsoll.embedded_cluster.api.json_documents import Json
from plimsoll.embedded_cluster.api.server import Answer, ApiServer, Request

_LARGEST_BODY_BYTES = 16 * 2**20


class HttpServer:
    """Serves one API server; there is no authentication, so it listens on loopback and nowhere else."""

    def __init__(self, api: ApiServer, *, port: int = 0) -> None:
        self._api = api
        self._wanted_port = port
        self._runner: web.AppRunner | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=_LARGEST_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._wanted_port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._api.close_watches()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        headers = request.headers
        asked = Request(
            method=request.method,
            path=request.path,
            params=dict(request.query),
            body=await request.read(),
            content_type=headers.get("Content-Type", "application/json"),
            accept=headers.get("Accept", "application/json"),
            user_agent=headers.get("User-Agent", ""),
        )
        # A write that has begun is carried out, also when nobody waits for the answer any more.
        answer = await asyncio.shield(self._api.handle(asked))
        if answer.watch is not None:
            return await _stream(request, answer)
        if answer.text is not None:
            return web.Response(status=answer.status, text=answer.text)
        told = {} if answer.retry_after_seconds is None else {"Retry-After": str(answer.retry_after_seconds)}
        body = msgspec.json.encode(answer.body)
        return web.Response(status=answer.status, body=body, content_type="application/json", headers=told)

    def write_kubeconfig(self, path: Path) -> None:
        """A kubeconfig that leads here."""
        name = "plimsoll"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": self.url}}],
            "users": [{"name": name, "user": {}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
            "current-context": name,
        }
        path.write_bytes(msgspec.json.format(msgspec.json.encode(config), indent=2))  # JSON is YAML, too


async def _stream(request: web.Request, answer: Answer) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    watch = answer.watch
    if watch is None:
        raise TypeError("only a watch is streamed")
    try:
        await response.prepare(request)
        async for chunk in watch.chunks():
            await response.write(chunk)
        await response.write_eof()
    except ConnectionError:
        pass  # whoever watched is gone
    finally:
        watch.close()
    return response


def webhook_client(services: Mapping[str, str]) -> Ask:
    """Sends AdmissionReviews as the API server does.

    services: where a Service is really served, `namespace/name` → `host:port`. Nothing routes to Services here; the certificate is
    checked for the Service's own name all the same.
    """

    async def ask(url: str, authority: bytes, review: Json, seconds: float) -> Json:
        trusted = ssl.create_default_context(cadata=authority.decode()) if authority else True
        limits = aiohttp.ClientTimeout(total=seconds)
        where, name = _routed(URL(url), services)
        try:
            async with (
                aiohttp.ClientSession(timeout=limits) as session,
                session.post(where, json=review, ssl=trusted, server_hostname=name) as response,
            ):
                if response.status != 200:
                    raise UnansweredError(f"it answered {response.status}")
                answer = msgspec.json.decode(await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError) as error:
            raise UnansweredError(str(error) or type(error).__name__) from error
        if not isinstance(answer, dict):
            raise UnansweredError("the answer is no AdmissionReview")
        return answer

    return ask


def _routed(url: URL, services: Mapping[str, str]) -> tuple[URL, str | None]:
    """Where to send what is meant for a URL, and the name that the certificate must have there, if another."""
    name, namespace, *rest = [*(url.host or "").split("."), "", ""]
    if rest[:1] != ["svc"]:
        return url, None
    address = services.get(f"{namespace}/{name}")
    if address is None:
        raise UnansweredError(f'Post "{url}": service "{name}" not found')
    host, _, port = address.rpartition(":")
    return url.with_host(host).with_port(int(port)), url.host


ask_webhook: Ask = webhook_client({})
