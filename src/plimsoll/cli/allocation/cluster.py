"""The cluster that the options of a command point to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from plimsoll.allocation.containers import WekaContainer
from plimsoll.allocation.places import WEKA_CONTAINERS
from plimsoll.cli.configuration import config_option, effective, set_option
from plimsoll.config import Config
from plimsoll.config.load import Flag
from plimsoll.kube.client import Client
from plimsoll.kube.errors import KubeError
from plimsoll.kube.resources import NODES
from plimsoll.kube.types import Node
from plimsoll.metrics import Metrics
from plimsoll.operator import connect

T = TypeVar("T")
Options = dict[str, Any]

_kubeconfig = click.option(
    "--kubeconfig", metavar="FILE", type=click.Path(path_type=Path), help="The kubeconfig to use."
)
_context = click.option("--context", metavar="NAME", help="The kubeconfig's context to use.")


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (_context, _kubeconfig, set_option, config_option):
        command = option(command)
    return command


async def nodes_and_containers(client: Client) -> tuple[dict[str, Node], tuple[WekaContainer, ...]]:
    nodes = (await client.list(NODES)).items
    return {node.name: node for node in nodes}, (await client.list(WEKA_CONTAINERS)).items


def run_on_cluster(work: Callable[[Client, Config], Awaitable[T]], options: Options) -> T:
    """Do something with the cluster that the options point to; what goes wrong there is one sentence, not a traceback."""
    kubeconfig, context = options.pop("kubeconfig"), options.pop("context")
    settings: Sequence[Flag] = options.pop("settings")
    config = effective(
        dry_run=False, controllers=None, settings=settings, log_format=None, log_level=None, **options
    ).config

    async def go() -> T:
        async with connect(config, Metrics(), kubeconfig=kubeconfig, context=context) as client:
            return await work(client, config)

    try:
        return asyncio.run(go())
    except KubeError as error:
        raise click.ClickException(str(error)) from error
