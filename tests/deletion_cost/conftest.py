"""Three zones of a real cluster, a proxy before it, and a Deployment in a namespace of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from plimsoll.config import DeletionCost
from tests.deletion_cost.live import POOL, Live, config
from tests.faults.proxy import Proxy
from tests.faults.record import Record
from tests.faults.rules import Rules
from tests.faults.upstream import Direct, Upstream
from tests.rbac.everywhere import kubeconfig_of_the_operator
from tools.controlplane.cluster import ControlPlane


@pytest.fixture(scope="package")
def zones(control_plane: ControlPlane) -> Iterator[dict[str, list[str]]]:
    """Two nodes in each of three zones, for all tests of this package: making nodes takes longer than most of them."""
    nodes = {
        zone: control_plane.add_nodes(
            f"2 zone={zone} cpu=64 memory=256Gi prefix=cost-{zone} label:{POOL}=deletion-cost"
        )
        for zone in "abc"
    }
    yield nodes
    control_plane.remove_nodes([name for names in nodes.values() for name in names])


@pytest.fixture
async def live(
    control_plane: ControlPlane, namespace: str, zones: dict[str, list[str]], tmp_path: Path
) -> AsyncIterator[Live]:
    upstream = Upstream.from_kubeconfig(control_plane.kubeconfig)
    rules = Rules()
    account = Upstream.from_kubeconfig(kubeconfig_of_the_operator(control_plane, config(DeletionCost())))
    async with Direct(upstream) as direct, Proxy(account, Record(), [rules], tmp_path) as proxy:
        live = Live(namespace, zones, direct, proxy, rules)
        try:
            yield live
        finally:
            await live.stop_all()
            await live.cordon(zones, on=False)
