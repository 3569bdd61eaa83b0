"""The entry point of the provider `vpsie`: servers or nodes of managed clusters, as configured."""

from __future__ import annotations

from plimsoll.providers.protocol import Provider
from plimsoll.providers.registry import Setup
from plimsoll.providers.vpsie.api import VpsieApi
from plimsoll.providers.vpsie.cluster_nodes import ClusterNodesProvider
from plimsoll.providers.vpsie.credentials import secret_in_cluster
from plimsoll.providers.vpsie.order_store import ConfigMapOrderStore
from plimsoll.providers.vpsie.servers import ServersProvider


def vpsie_provider(setup: Setup) -> Provider:
    section = setup.config.vpsie
    api = VpsieApi(secret_in_cluster(setup.client, section.secret_namespace, section.secret_name), setup.clock)
    if section.order == "cluster-nodes":
        return ClusterNodesProvider(api, ConfigMapOrderStore(setup.client, setup.namespace), setup.clock)
    return ServersProvider(api, setup.clock)
