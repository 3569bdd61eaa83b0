"""The API server on loopback HTTP, for kubectl and for the operator as a separate process."""

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

from plimsoll.embedded_cluster.api.admission import WebhookCall, WebhookCallError
from plimsoll.embedded_cluster.api.json_documents import Json
from plimsoll.embedded_cluster.api.server import ApiRequest, ApiResponse, ApiServer

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
        asked = ApiRequest(
            method=request.method,
            path=request.path,
            params=dict(request.query),
            body=await request.read(),
            content_type=headers.get("Content-Type", "application/json"),
            accept=headers.get("Accept", "application/json"),
            user_agent=headers.get("User-Agent", ""),
        )
        # Finish a write that has begun, even if the client disconnects.
        answer = await asyncio.shield(self._api.handle(asked))
        if answer.watch is not None:
            return await _stream(request, answer)
        if answer.text is not None:
            return web.Response(status=answer.status, text=answer.text)
        told = {} if answer.retry_after_seconds is None else {"Retry-After": str(answer.retry_after_seconds)}
        body = msgspec.json.encode(answer.body)
        return web.Response(status=answer.status, body=body, content_type="application/json", headers=told)

    def write_kubeconfig(self, path: Path) -> None:
        """Write a kubeconfig for this server."""
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


async def _stream(request: web.Request, answer: ApiResponse) -> web.StreamResponse:
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
        pass  # the client disconnected
    finally:
        watch.close()
    return response


def webhook_caller(services: Mapping[str, str]) -> WebhookCall:
    """A function that sends AdmissionReviews as the API server does.

    services: the address of a Service, `namespace/name` → `host:port`, since nothing routes to Services here. The certificate is
    still checked for the Service's DNS name.
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
                    raise WebhookCallError(f"it answered {response.status}")
                answer = msgspec.json.decode(await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError) as error:
            raise WebhookCallError(str(error) or type(error).__name__) from error
        if not isinstance(answer, dict):
            raise WebhookCallError("the answer is no AdmissionReview")
        return answer

    return ask


def _routed(url: URL, services: Mapping[str, str]) -> tuple[URL, str | None]:
    """The URL to connect to, and the name that the certificate must have if it differs."""
    name, namespace, *rest = [*(url.host or "").split("."), "", ""]
    if rest[:1] != ["svc"]:
        return url, None
    address = services.get(f"{namespace}/{name}")
    if address is None:
        raise WebhookCallError(f'Post "{url}": service "{name}" not found')
    host, _, port = address.rpartition(":")
    return url.with_host(host).with_port(int(port)), url.host


call_webhook: WebhookCall = webhook_caller({})
