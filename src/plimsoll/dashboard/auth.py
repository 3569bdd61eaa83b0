"""Who may look.

On loopback: whoever can reach it, which a pod's own network or `kubectl port-forward` decides; a page of another site that has
its name resolved to loopback gives itself away by its Host. Elsewhere: whoever the API server knows by its token and allows to
get `/plimsoll/dashboard`.
"""

from __future__ import annotations

from typing import Protocol

import structlog
from aiohttp import web

from plimsoll.config import Config
from plimsoll.config.sources import ConfigurationError, Problem
from plimsoll.dashboard.token_reviews import PATH, Reviews, TooManyQuestions
from plimsoll.kube.addresses import is_loopback
from plimsoll.kube.client.errors import KubeError

log = structlog.get_logger()

_LONGEST_TOKEN = 8192
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


class Gate(Protocol):
    async def admit(self, request: web.Request) -> None:
        """Return, or raise what the client is told instead of an answer."""
        ...


def refuse_to_be_open(config: Config) -> None:
    """Raises ConfigurationError where everybody could look."""
    section = config.dashboard
    if section.enabled and section.access == "loopback" and not is_loopback(section.host):
        message = (
            f"loopback, but dashboard.host is {section.host}, where others can reach it; set dashboard.access: token, or "
            "listen on 127.0.0.1 and use `kubectl port-forward`"
        )
        raise ConfigurationError([Problem("", "dashboard.access", message)])


class LoopbackGate:
    async def admit(self, request: web.Request) -> None:
        host = request.headers.get("Host", "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if name.lower() not in _LOCAL_NAMES:
            message = (
                f'the Host header is "{host[:100]}"; here the dashboard is served to this machine alone, as localhost or '
                "127.0.0.1. To reach it from elsewhere use `kubectl port-forward`, or dashboard.access: token\n"
            )
            raise web.HTTPMisdirectedRequest(text=message)


class TokenGate:
    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews

    async def admit(self, request: web.Request) -> None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise _unknown("no token was sent; expected the header Authorization: Bearer …")
        if len(token) > _LONGEST_TOKEN:
            raise _unknown(f"the token is longer than {_LONGEST_TOKEN} characters, as none of a cluster is")
        try:
            verdict = await self._reviews.of(token)
        except TooManyQuestions:
            raise _unavailable("too many tokens were sent that were not seen before; try again in a moment") from None
        except KubeError as error:
            log.warning("nobody is let in to the dashboard", error=str(error))
            raise _unavailable(
                "the cluster could not be asked whose token this is; the operator's log says why"
            ) from None
        if not verdict.known:
            raise _unknown("the cluster does not know this token; it may have expired")
        if not verdict.allowed:
            message = (
                f"{verdict.user} may not look: he needs the verb get on the non-resource URL {PATH}, as the ClusterRole "
                "plimsoll-dashboard-viewer gives it\n"
            )
            raise web.HTTPForbidden(text=message)


def _unknown(message: str) -> web.HTTPUnauthorized:
    return web.HTTPUnauthorized(text=f"{message}\n", headers={"WWW-Authenticate": 'Bearer realm="plimsoll"'})


def _unavailable(message: str) -> web.HTTPServiceUnavailable:
    return web.HTTPServiceUnavailable(text=f"{message}\n", headers={"Retry-After": "2"})
