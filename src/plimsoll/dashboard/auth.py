"""Authentication and authorization of dashboard users.

`access: loopback`: everyone who can reach the loopback address, for example through `kubectl port-forward`. The Host header is
checked, so that another site cannot reach the dashboard by DNS rebinding. `access: token`: users whose bearer token the API server
authenticates and who may `get` the non-resource URL `/plimsoll/dashboard`.
"""

from __future__ import annotations

from typing import Protocol

import structlog
from aiohttp import web

from plimsoll.config import Config
from plimsoll.config.sources import ConfigProblem, ConfigurationError
from plimsoll.dashboard.token_reviews import PATH, TokenReviewer, TooManyReviews
from plimsoll.kube.addresses import is_loopback
from plimsoll.kube.client.errors import KubeError

log = structlog.get_logger()

_LONGEST_TOKEN = 8192
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


class Gate(Protocol):
    async def admit(self, request: web.Request) -> None:
        """Return if the request is admitted, else raise the HTTP error to send."""
        ...


def require_access_control(config: Config) -> None:
    """Raise ConfigurationError if the dashboard would be reachable without authentication."""
    section = config.dashboard
    if section.enabled and section.access == "loopback" and not is_loopback(section.host):
        message = (
            f"loopback, but dashboard.host {section.host} is reachable from other machines; set dashboard.access: token, or "
            "dashboard.host: 127.0.0.1 and use `kubectl port-forward`"
        )
        raise ConfigurationError([ConfigProblem("", "dashboard.access", message)])


class LoopbackGate:
    async def admit(self, request: web.Request) -> None:
        host = request.headers.get("Host", "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if name.lower() not in _LOCAL_NAMES:
            message = (
                f'the Host header is "{host[:100]}"; the dashboard accepts only localhost and '
                "127.0.0.1. To reach it from elsewhere use `kubectl port-forward`, or dashboard.access: token\n"
            )
            raise web.HTTPMisdirectedRequest(text=message)


class TokenGate:
    def __init__(self, reviews: TokenReviewer) -> None:
        self._reviews = reviews

    async def admit(self, request: web.Request) -> None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise _unknown("no token was sent; expected the header Authorization: Bearer …")
        if len(token) > _LONGEST_TOKEN:
            raise _unknown(f"the token is longer than {_LONGEST_TOKEN} characters")
        try:
            verdict = await self._reviews.of(token)
        except TooManyReviews:
            raise _unavailable("too many unknown tokens; try again in a moment") from None
        except KubeError as error:
            log.warning("cannot authenticate dashboard users", error=str(error))
            raise _unavailable("the API server could not review the token; see the operator's log") from None
        if not verdict.known:
            raise _unknown("the API server does not accept this token; it may have expired")
        if not verdict.allowed:
            message = (
                f"{verdict.user} may not get the non-resource URL {PATH}; bind the ClusterRole "
                "plimsoll-dashboard-viewer to this user\n"
            )
            raise web.HTTPForbidden(text=message)


def _unknown(message: str) -> web.HTTPUnauthorized:
    return web.HTTPUnauthorized(text=f"{message}\n", headers={"WWW-Authenticate": 'Bearer realm="plimsoll"'})


def _unavailable(message: str) -> web.HTTPServiceUnavailable:
    return web.HTTPServiceUnavailable(text=f"{message}\n", headers={"Retry-After": "2"})
