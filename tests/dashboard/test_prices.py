"""What a group's nodes cost, now and over time: at the prices that the provider was seen to ask, and never a guess."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from plimsoll.controllers.nodegroups.controller import NodeGroupController
from plimsoll.controllers.nodegroups.provider_inventory import ProviderInventory
from plimsoll.controllers.nodegroups.types import NodeGroup, VPSieNode
from plimsoll.dashboard.cluster_snapshot import DashboardSnapshot
from plimsoll.kube.codec import convert
from plimsoll.providers.protocol import Offering
from tests.clocks import StandingClock
from tests.dashboard.scene import Scene, read

KEY = "infra/pool"


class Pool:
    """A NodeGroup of which small and large nodes may be bought, and who decides about it."""

    def __init__(self, **prices: float) -> None:
        self.clock = StandingClock()
        self.scene = Scene("nodegroups", clock=self.clock)
        group = {
            "metadata": {"name": "pool", "namespace": "infra", "uid": "g"},
            "spec": {"minNodes": 0, "maxNodes": 9, "provider": "kwok", "datacenterID": "dc", "resourceIdentifier": "c",
                     "project": "p", "kubernetesVersion": "v1.36.3", "offeringIDs": ["small", "large"]},
        }  # fmt: skip
        self.scene.put(convert(group, NodeGroup))
        if prices:
            self.sell(**prices)
        self.snapshot: DashboardSnapshot = self.scene.snapshot()

    def sell(self, **prices: float) -> None:
        (controller,) = self.scene.controllers
        assert isinstance(controller, NodeGroupController)
        sold = tuple(Offering(name, price_per_hour=price) for name, price in prices.items())
        controller.inventories.record("kwok", ProviderInventory.of(self.clock.now(), (), {"dc": sold}))

    def buy(self, name: str, offering: str) -> VPSieNode:
        body = {
            "metadata": {"name": name, "namespace": "infra", "uid": name},
            "spec": {"nodeGroupName": "pool", "provider": "kwok", "instanceType": offering},
            "status": {"phase": "Ready", "nodeName": name},
        }
        node = convert(body, VPSieNode)
        self.scene.put(node)
        return node

    async def told(self) -> dict[str, Any]:
        self.scene.decide(self.snapshot)
        await self.snapshot.renew()
        record: dict[str, Any] = read(self.snapshot.whole())["groups"][KEY]
        return record


async def test_the_sum_of_its_nodes() -> None:
    pool = Pool(small=0.05, large=0.2)
    pool.buy("a", "small")
    pool.buy("b", "small")
    pool.buy("c", "large")
    assert (await pool.told())["pricePerHour"] == pytest.approx(0.3)


async def test_no_nodes_cost_nothing() -> None:
    assert (await Pool(small=0.05).told())["pricePerHour"] == 0


async def test_over_time() -> None:
    pool = Pool(small=0.05, large=0.2)
    await pool.told()
    pool.clock.wall_offset += timedelta(minutes=5)
    pool.buy("a", "large")
    await pool.told()
    pool.clock.wall_offset += timedelta(minutes=5)
    pool.sell(small=0.05, large=0.25)
    points = (await pool.told())["history"]
    assert [(point[1], point[4]) for point in points] == [(0, 0), (1, 0.2), (1, 0.25)]


@pytest.mark.parametrize("prices", [{}, {"small": 0.0, "large": 0.0}, {"small": 0.05}, {"small": 0.05, "large": 0.0}])
async def test_a_sum_that_would_leave_a_node_out_is_not_told(prices: dict[str, float]) -> None:
    pool = Pool(**prices)
    pool.buy("a", "small")
    pool.buy("b", "large")
    record = await pool.told()
    assert record["pricePerHour"] is None
    assert [len(point) for point in record["history"]] == [4]
