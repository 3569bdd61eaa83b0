"""Leases of nodes: renewed while their kubelet answers, and gone with the node."""

from __future__ import annotations

import asyncio

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import name_of
from plimsoll.embedded_cluster.api.timestamps import parse_timestamp
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from plimsoll.embedded_cluster.controllers.context import ClusterTimings
from tests.embedded_cluster.scene import cluster, virtually


def ages(made: EmbeddedCluster) -> dict[str, float]:
    """Seconds since each node was last heard of."""
    leases = made.all(kinds.LEASES, "kube-node-lease")
    return {
        name_of(one): (made.clock.now() - parse_timestamp(one["spec"]["renewTime"])).total_seconds() for one in leases
    }


@virtually
async def test_nodes_renew_their_leases() -> None:
    async with cluster("2 prefix=n", times=ClusterTimings(heartbeat=10.0)) as made:
        await asyncio.sleep(300)
        assert sorted(ages(made)) == ["n-1", "n-2"]
        assert max(ages(made).values()) <= 10
        made.kubelets.silence("n-1")
        await asyncio.sleep(300)
        assert ages(made)["n-1"] > 200
        assert ages(made)["n-2"] <= 10
        made.remove_node("n-2")
        assert sorted(ages(made)) == ["n-1"]


@virtually
async def test_without_heartbeats_there_are_none() -> None:
    async with cluster("2 prefix=n") as made:
        assert ages(made) == {}
