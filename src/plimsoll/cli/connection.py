"""Options that select a cluster, and running a function with a client; API errors become one-line messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import structlog

from plimsoll.cli.config_options import config_option, effective, set_option
from plimsoll.config import Config
from plimsoll.config.load import Flag
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import Forbidden, KubeError, Unauthorized
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import connect

log = structlog.get_logger()

T = TypeVar("T")

_kubeconfig = click.option(
    "--kubeconfig", metavar="FILE", type=click.Path(path_type=Path), help="The kubeconfig to use."
)
_context = click.option("--context", metavar="NAME", help="The kubeconfig's context to use.")


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (_context, _kubeconfig, set_option, config_option):
        command = option(command)
    return command


def configuration(file: Path | None, settings: Sequence[Flag]) -> Config:
    return effective(
        file=file, dry_run=False, controllers=None, settings=settings, log_format=None, log_level=None
    ).config


async def accepts_credentials(client: Client, stop: asyncio.Event) -> bool:
    """Ask the API server for its version; False if a stop was requested first. Raises KubeError with a remedy."""
    version = asyncio.ensure_future(client.read("/version"))
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((version, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not version.done():
            return False
        version.result()
    except Forbidden:
        log.debug("not allowed to read /version; the credentials are valid")
    except Unauthorized as error:
        raise KubeError(rejected_credentials(client.server, error)) from error
    finally:
        version.cancel()
        stopped.cancel()
        await asyncio.gather(version, stopped, return_exceptions=True)
    return True


def rejected_credentials(server: str, error: Unauthorized) -> str:
    return (
        f"{server} rejects the credentials ({error}); the token or client certificate may have expired: sign in again, or check the "
        "user of the kubeconfig's context"
    )


def run_with_client(
    work: Callable[[Client], Awaitable[T]], config: Config, *, kubeconfig: Path | None, context: str | None
) -> T:
    async def go() -> T:
        async with connect(config, Metrics(), kubeconfig=kubeconfig, context=context) as client:
            return await work(client)

    try:
        return asyncio.run(go())
    except Unauthorized as error:
        raise click.ClickException(rejected_credentials("the API server", error)) from error
    except KubeError as error:
        raise click.ClickException(str(error)) from error
