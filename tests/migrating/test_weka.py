"""From the allocator of the Weka operator and back: allocations in status, claims of its former scheme on nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from plimsoll.controllers.allocation.crd import crd
from tests.allocation.build import container_body, drive_annotations
from tests.eventually import eventually
from tests.faults.upstream import Json
from tests.kinds import served
from tests.migrating.cluster import Place, settled, switched_on
from tools.controlplane.cluster import ControlPlane


@pytest.fixture
def containers(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    with served(control_plane, [crd()]):
        yield f"/apis/weka.weka.io/v1alpha1/namespaces/{namespace}/wekacontainers"


async def test_there_and_back(here: Place, containers: str, tmp_path: Path):
    node = f"{here.namespace}-storage"
    owner = f"storage:{here.namespace}:backend-0"
    claims = {"weka.io/drive-claims": json.dumps({"S1": owner, "S2": owner})}
    meta = {"name": node, "annotations": drive_annotations(["S1", "S2", "S3"]) | claims}
    await here.direct.create("/api/v1/nodes", {"metadata": meta})
    try:
        await here.direct.create(containers, container_body("backend-0", node=node, drives=2))
        theirs = {
            "status": "Running",
            "allocations": {
                "drives": ["S1", "S2"], "wekaPort": 35000, "agentPort": 35300, "failureDomain": "rack-1",
                "netDevices": [{"name": "eth1"}],
            },
        }  # fmt: skip
        before = await here.direct.patch(f"{containers}/backend-0/status", {"status": theirs})
        quick = (f"allocation.namespace={here.home}", "controllers.reconcileInterval=1s")
        async with switched_on(here, tmp_path, "allocation", *quick) as operator:
            await settled(operator, "allocation")
            await here.direct.create(containers, container_body("backend-1", node=node, drives=1))

            async def allocated() -> Json:
                found: Json = (await here.direct.get(f"{containers}/backend-1")).get("status", {})
                return found.get("allocations") or {}

            given: Json = await eventually(allocated, "the new one is served")
            assert given["drives"] == ["S3"]
            assert given["wekaPort"] >= 35100, "a hundred ports belong to whoever was there before"
            await settled(operator, "allocation")
            held = await here.direct.get(f"{containers}/backend-0")
            assert held["status"]["allocations"] == theirs["allocations"]
            assert held["metadata"]["uid"] == before["metadata"]["uid"]
        compared = await here.command("allocation", "migrate", "--apply", "--node", node)
        assert "removed: weka.io/drive-claims" in compared
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{here.home}/leases/weka-allocator-{node}"
        assert not (await here.direct.get(lease))["spec"].get("holderIdentity"), "free for the next allocator at once"
        left = (await here.direct.get(f"{containers}/backend-1"))["status"]
        assert left["allocations"] == given
        assert [one["type"] for one in left["conditions"]] == ["Allocated"], "no proposal is left open"
    finally:
        await here.direct.delete(containers)
        here.cluster.remove_nodes([node])
