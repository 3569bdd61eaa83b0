"""From the VPSie autoscaler and back: groups and nodes with fields and finalizers that we do not know, machines without our tags."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from plimsoll.controllers.nodegroups.crds import node_group_crds
from plimsoll.controllers.nodegroups.types import FINALIZER
from tests.eventually import eventually
from tests.faults.upstream import Json
from tests.kinds import served
from tests.migrating.cluster import Place, settled, switched_on
from tests.vpsie.clock import SkippingClock
from tests.vpsie.emulator import Emulator, Vm
from tools.controlplane.cluster import ControlPlane

THEIR_FINALIZER = "vpsienode.autoscaler.vpsie.com/finalizer"
SIZE = {"id": 7, "name": "S", "cpu": 2, "ram": 4096, "price": 73.0, "datacenter_id": "dc-1"}


@pytest.fixture
def groups(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    with served(control_plane, node_group_crds()):
        yield f"/apis/autoscaler.vpsie.com/v1alpha1/namespaces/{namespace}/nodegroups"


async def leave_behind(here: Place, groups: str, nodes: list[str]) -> list[Json]:
    """A group of two and its nodes, as that autoscaler has them."""
    spec: dict[str, Any] = {
        "minNodes": 2, "maxNodes": 4, "datacenterID": "dc-1", "resourceIdentifier": "c1", "project": "p",
        "offeringIDs": ["7"], "kubernetesVersion": "v1.36.3", "spotConfig": {"enabled": False}, "kubeSizeID": 7,
        "scaleDownPolicy": {"enabled": True, "stabilizationWindowSeconds": 600, "cooldownSeconds": 600},
    }  # fmt: skip
    api = "autoscaler.vpsie.com/v1alpha1"
    group = await here.direct.create(
        groups, {"apiVersion": api, "kind": "NodeGroup", "metadata": {"name": "workers"}, "spec": spec}
    )
    await here.direct.patch(f"{groups}/workers/status", {"status": {"currentNodes": 2, "vpsieGroupID": 12}})
    owner = {"apiVersion": api, "kind": "NodeGroup", "name": "workers", "uid": group["metadata"]["uid"]}
    found = []
    for number, node in enumerate(nodes):
        labels = {"autoscaler.vpsie.com/managed": "true", "autoscaler.vpsie.com/nodegroup": "workers"}
        meta = {
            "name": f"workers-{number}",
            "labels": labels,
            "ownerReferences": [owner],
            "finalizers": [THEIR_FINALIZER],
        }
        member = {
            "nodeGroupName": "workers", "datacenterID": "dc-1", "instanceType": "7", "nodeName": node,
            "vpsieInstanceID": str(number + 1), "vpsieGroupID": 12, "vpsieNodeIdentifier": f"x{number}", "project": "p",
            "resourceIdentifier": "c1", "kubernetesVersion": "v1.36.3",
        }  # fmt: skip
        path = groups.replace("nodegroups", "vpsienodes")
        await here.direct.create(path, {"apiVersion": api, "kind": "VPSieNode", "metadata": meta, "spec": member})
        status = {
            "phase": "Ready", "nodeName": node, "hostname": node, "resources": {"cpu": 2, "memoryMB": 4096},
            "readyAt": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        found.append(await here.direct.patch(f"{path}/workers-{number}/status", {"status": status}))
    return found


async def test_there_and_back(here: Place, groups: str, kwok_nodes: Callable[[str], list[str]], tmp_path: Path):
    members = groups.replace("nodegroups", "vpsienodes")
    nodes = kwok_nodes("2 zone=a")
    before = await leave_behind(here, groups, nodes)
    machines = [Vm(number + 1, {"hostname": name, "tags": []}, 0.0) for number, name in enumerate(nodes)]
    emulator = Emulator(
        SkippingClock(), offerings=[SIZE], machines=machines, token_seconds=10 * 365 * 86_400.0, throttles=False
    )
    async with emulator.running():
        known = {"url": emulator.url, "clientId": "our-client-id", "clientSecret": "our-client-secret"}
        data = {name: base64.b64encode(value.encode()).decode() for name, value in known.items()}
        secrets = f"/api/v1/namespaces/{here.home}/secrets"
        await here.direct.create(secrets, {"metadata": {"name": "vpsie-secret"}, "data": data})
        quick = (
            f"providers.vpsie.secretNamespace={here.home}", "nodegroups.pollInterval=1s", "controllers.reconcileInterval=1s",
        )  # fmt: skip

        async def in_steady_state() -> bool:
            status = (await here.direct.get(f"{groups}/workers"))["status"]
            kept = [FINALIZER in one["metadata"]["finalizers"] for one in (await here.direct.get(members))["items"]]
            return (status.get("currentNodes"), status.get("readyNodes")) == (2, 2) and kept == [True, True]

        async with switched_on(here, tmp_path, "nodegroups", *quick) as operator:
            await eventually(in_steady_state, "both nodes are counted")
            await settled(operator, "nodegroups")
        assert emulator.count("POST /vm") == emulator.count("DELETE /vm") == 0, "no machine is made or given back"
    for old in before:
        now = await here.direct.get(f"{members}/{old['metadata']['name']}")
        assert now["spec"] == old["spec"]
        assert now["status"]["resources"] == old["status"]["resources"]
        assert now["metadata"]["finalizers"] == [THEIR_FINALIZER, FINALIZER]
    group = await here.direct.get(f"{groups}/workers")
    assert group["spec"]["spotConfig"] == {"enabled": False}
    assert group["status"]["vpsieGroupID"] == 12
    assert FINALIZER in await here.command("cleanup", "--apply")
    for one in (await here.direct.get(members))["items"]:
        assert one["metadata"]["finalizers"] == [THEIR_FINALIZER], "only they decide now when an object may go"
        await here.direct.patch(f"{members}/{one['metadata']['name']}", {"metadata": {"finalizers": None}})
    await here.direct.delete(f"{groups}/workers")
