"""Who may look.

On loopback: whoever can reach it, which a pod's own network or `kubectl port-forward` decides; a page of another site that has
its name resolved to loopback gives itself away by its Host. Elsewhere: whoever the API server knows by its token and allows to
get `/plimsoll/dashboard`.
"""

from __future__ import annotations

import ipaddress
from typing import Protocol

from aiohttp import web

_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


class Gate(Protocol):
    async def admit(self, request: web.Request) -> None:
        """Return, or raise what the client is told instead of an answer."""
        ...


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class LoopbackGate:
    async def admit(self, request: web.Request) -> None:
        host = request.headers.get("Host", "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if name not in _LOCAL_NAMES:
            message = (
                f'the Host header is "{host[:100]}"; here the dashboard is served to this machine alone, as localhost or '
                "127.0.0.1. To reach it from elsewhere use `kubectl port-forward`, or dashboard.access: token\n"
            )
            raise web.HTTPMisdirectedRequest(text=message)
