"""Cluster access that the allocation commands share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from plimsoll.cli.connection import configuration, run_with_client
from plimsoll.config import Config
from plimsoll.controllers.allocation.container_nodes import WEKA_CLUSTERS, WEKA_CONTAINERS
from plimsoll.controllers.allocation.types import Clusters, WekaContainer
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import NotFound
from plimsoll.kube.types.core import Node
from plimsoll.kube.types.resources import NODES

T = TypeVar("T")
Options = dict[str, Any]


async def clusters_of(client: Client) -> Clusters:
    """The ports of all storage clusters; none if the kind is not installed."""
    try:
        found = (await client.list(WEKA_CLUSTERS)).items
    except NotFound:
        return ()
    return tuple(sorted((one.uid, one.status.ports) for one in found))


async def nodes_and_containers(client: Client) -> tuple[dict[str, Node], tuple[WekaContainer, ...]]:
    nodes = (await client.list(NODES)).items
    return {node.name: node for node in nodes}, (await client.list(WEKA_CONTAINERS)).items


def run_on_cluster(work: Callable[[Client, Config], Awaitable[T]], options: Options) -> T:
    """Run `work` with a client for the cluster that the options select."""
    kubeconfig, context = options.pop("kubeconfig"), options.pop("context")
    config = configuration(**options)
    return run_with_client(lambda client: work(client, config), config, kubeconfig=kubeconfig, context=context)
