"""How each of our servers takes its address: one, or every one of this machine."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable

from aiohttp import web

EVERY_ADDRESS = "*"
_BACKLOG = 128  # what aiohttp takes where nobody says otherwise


class CannotListenError(Exception):
    """The address is taken, or is none of this machine's; the message says what to change."""


async def listen(
    runner: web.BaseRunner, host: str, port: int, *, tls: ssl.SSLContext | None = None, backlog: int = _BACKLOG
) -> None:
    """Set up a runner and let it listen; where it cannot, it is cleaned up again, and the OSError says why."""
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
    protocol: Callable[[], asyncio.Protocol], host: str, port: int, *, tls: ssl.SSLContext, backlog: int
) -> asyncio.Server:
    """Listen with a protocol of our own; the OSError says why that cannot be."""
    loop = asyncio.get_running_loop()
    if host == EVERY_ADDRESS:
        return await loop.create_server(protocol, sock=_every_address(port), ssl=tls, backlog=backlog)
    return await loop.create_server(protocol, host, port, ssl=tls, backlog=backlog)


def port_of(runner: web.BaseRunner) -> int:
    """The port that is really listened on, also where 0 asked for any."""
    port: int = runner.addresses[0][1]
    return port


def reason_of(error: OSError) -> str | None:
    """The loop wraps the reason in a sentence of its own; a failed look-up of a name has only its text."""
    return error.strerror if isinstance(error, socket.gaierror) or not error.errno else os.strerror(error.errno)


def _every_address(port: int) -> socket.socket:
    """One socket for IPv4 and IPv6, or for IPv4 alone where the machine has IPv6 switched off."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
    return socket.create_server(("", port))
