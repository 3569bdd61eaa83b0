"""Listening sockets of the operator's servers: on one address, or on all addresses of the machine."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable

from aiohttp import web

EVERY_ADDRESS = "*"
_BACKLOG = 128  # aiohttp's default


class CannotListenError(Exception):
    """The address is in use or does not belong to this machine. The message says which setting to change."""


async def listen(
    runner: web.BaseRunner, host: str, port: int, *, tls: ssl.SSLContext | None = None, backlog: int = _BACKLOG
) -> None:
    """Set up a runner and start listening; on failure, clean the runner up and raise OSError."""
    await runner.setup()
    try:
        site: web.BaseSite
        if host == EVERY_ADDRESS:
            site = web.SockSite(runner, _every_address(port), ssl_context=tls, backlog=backlog)
        else:
            site = web.TCPSite(runner, host, port, ssl_context=tls, backlog=backlog)
        await site.start()
    except OSError:
        await runner.cleanup()
        raise


async def serve(
    protocol: Callable[[], asyncio.Protocol],
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext,
    backlog: int,
    handshake_seconds: float,
) -> asyncio.Server:
    """Listen with an asyncio protocol; raises OSError."""
    loop = asyncio.get_running_loop()
    if host == EVERY_ADDRESS:
        return await loop.create_server(
            protocol, sock=_every_address(port), ssl=tls, backlog=backlog, ssl_handshake_timeout=handshake_seconds
        )
    return await loop.create_server(
        protocol, host, port, ssl=tls, backlog=backlog, ssl_handshake_timeout=handshake_seconds
    )


def port_of(runner: web.BaseRunner) -> int:
    """The actual port, also if the configuration says 0 (any free port)."""
    port: int = runner.addresses[0][1]
    return port


def reason_of(error: OSError) -> str | None:
    """The operating system's message, without asyncio's own sentence around it. A failed DNS lookup has only its text."""
    return error.strerror if isinstance(error, socket.gaierror) or not error.errno else os.strerror(error.errno)


def _every_address(port: int) -> socket.socket:
    """One socket for IPv4 and IPv6, or for IPv4 only if IPv6 is disabled."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
    return socket.create_server(("", port))
