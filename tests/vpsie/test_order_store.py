"""The book of orders in the cluster's own objects: two processes cannot both write it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import load_credentials
from plimsoll.kube.types.resources import CONFIGMAPS
from plimsoll.providers.errors import AmbiguousOutcome, ProviderError
from plimsoll.providers.vpsie.order_store import ConfigMapOrderStore
from plimsoll.providers.vpsie.orders import NodeOrder
from plimsoll.runtime.clock import RealClock
from tests.vpsie.clock import START
from tools.controlplane.cluster import ControlPlane


async def test_the_ledger_in_the_cluster(control_plane: ControlPlane, namespace: str) -> None:
    async with Client(load_credentials(control_plane.kubeconfig), clock=RealClock()) as client:
        first, second = ConfigMapOrderStore(client, namespace), ConfigMapOrderStore(client, namespace)
        order = NodeOrder("k1", "node-k1", "g", "c1", "7", "dc-1", START, ("a", "b"))
        await first.begin(order)
        with pytest.raises(AmbiguousOutcome):
            await second.begin(order)
        assert await second.read() == [order]
        await first.write(replace(order, answered=True))
        with pytest.raises(AmbiguousOutcome):
            await second.write(replace(order, unwanted=True))
        assert await second.read() == [replace(order, answered=True)]
        await second.write(replace(order, unwanted=True))
        await first.end(order)
        assert await second.read() == []
        await first.begin(order)
        await client.patch(CONFIGMAPS, namespace, "plimsoll-vpsie-k1", {"data": {"order": "oh"}})
        with pytest.raises(ProviderError, match="plimsoll-vpsie-k1 cannot be read"):
            await second.read()
