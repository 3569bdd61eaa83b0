"""Serves `/healthz`, `/readyz` and `/metrics`, for the kubelet and for Prometheus. Started by `plimsoll run`."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from plimsoll.runtime.listen import CannotListenError, listen, port_of, reason_of


class HealthSource(Protocol):
    """Reports the health of the process. Each method returns a reason to display, or None if all is well."""

    def not_alive(self) -> str | None:
        """Why only a restart would help. A stuck event loop shows by not answering at all."""
        ...

    def not_ready(self) -> str | None:
        """Why clients should not rely on this process now. A standby that does not lead is ready."""
        ...

    def stopped_controllers(self) -> Sequence[str]:
        """Controllers that do nothing at present, each with the reason, while others work."""
        ...


class HealthServer:
    """Use as `async with`: serves while the block runs."""

    def __init__(self, host: str, port: int, health: HealthSource, registry: CollectorRegistry) -> None:
        self._host = host
        self._wanted_port = port
        self._health = health
        self._registry = registry
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        # No access log: probes every few seconds would fill it.
        # A client that stays connected must not delay the shutdown, which has ten seconds in total.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)

    @property
    def port(self) -> int:
        return port_of(self._runner)

    async def __aenter__(self) -> Self:
        try:
            await listen(self._runner, self._host, self._wanted_port)
        except OSError as error:
            raise CannotListenError(self._advice(error)) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    def _advice(self, error: OSError) -> str:
        where = f"[{self._host}]" if ":" in self._host else self._host
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            advice = "choose another port with web.port (PLIMSOLL_WEB_PORT, --set web.port=…; 0 takes any free port)"
        else:
            advice = "set web.host (PLIMSOLL_WEB_HOST) to an address of this machine, or to * for all addresses"
        return f"cannot listen on {where}:{self._wanted_port}: {reason_of(error)}; {advice}"

    async def _healthz(self, _: web.Request) -> web.Response:
        return _verdict(self._health.not_alive())

    async def _readyz(self, _: web.Request) -> web.Response:
        return _verdict(self._health.not_ready(), self._health.stopped_controllers())

    async def _metrics(self, request: web.Request) -> web.Response:
        try:
            encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        except (TypeError, ValueError):  # the library fails on a malformed version in the Accept header
            encode, content_type = choose_encoder("")
        # Encoding tens of thousands of series would block the event loop for too long, so a thread does it.
        body = await asyncio.to_thread(encode, self._registry)
        response = web.Response(body=body, headers={"Content-Type": content_type})
        response.enable_compression()
        return response


def _verdict(reason: str | None, remarks: Sequence[str] = ()) -> web.Response:
    if reason is not None:
        return web.Response(status=503, text=f"{reason}\n")
    return web.Response(text="".join(f"{line}\n" for line in ("ok", *remarks)))
