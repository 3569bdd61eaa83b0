"""Node groups with their own rights, over both providers: orders in ConfigMaps, one Secret, drains, and what is measured."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plimsoll.controllers.nodegroups.crds import node_group_crds
from tests.eventually import eventually
from tests.kinds import served
from tests.rbac.account import Account, installed
from tests.vpsie.clock import SkippingClock
from tests.vpsie.emulator import Emulator, VpsieCluster
from tools.controlplane.cluster import ControlPlane

SIZE = {"id": 7, "name": "S", "cpu": 2, "ram": 4096, "price": 73.0, "datacenter_id": "dc-1"}
CHOSEN = (
    "--controllers", "nodegroups", "--set", "providers.enabled=kwok,vpsie", "--set", "providers.vpsie.order=cluster-nodes",
    "--set", "providers.kwok.createDelay=100ms", "--set", "providers.kwok.deleteDelay=100ms",
    "--set", "nodegroups.utilizationSource=metrics", "--set", "nodegroups.pollInterval=1s",
    "--set", "nodegroups.unschedulablePodGrace=0s", "--set", "controllers.reconcileInterval=2s",
)  # fmt: skip


@pytest.fixture
def groups(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    """The path of the test's groups."""
    with served(control_plane, node_group_crds()):
        yield f"/apis/autoscaler.vpsie.com/v1alpha1/namespaces/{namespace}/nodegroups"


def group(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaler.vpsie.com/v1alpha1",
        "kind": "NodeGroup",
        "metadata": {"name": name},
        "spec": {
            "minNodes": 0, "maxNodes": 3, "datacenterID": "dc-1", "resourceIdentifier": "c1", "project": "p",
            "kubernetesVersion": "v1.36.3", "scaleDownPolicy": {"cooldownSeconds": 1},
            "taints": [{"key": "only-for", "value": namespace, "effect": "NoSchedule"}], **spec,
        },
    }  # fmt: skip


def workload(namespace: str) -> dict[str, Any]:
    """Four pods, two on each node."""
    labels = {"app": "web"}
    spread = {
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "nodeTaintsPolicy": "Honor", "labelSelector": {"matchLabels": labels},
    }  # fmt: skip
    spec = {
        "tolerations": [{"key": "only-for", "operator": "Equal", "value": namespace, "effect": "NoSchedule"}],
        "nodeSelector": {"autoscaler.vpsie.com/managed": "true"},
        "terminationGracePeriodSeconds": 0,
        "topologySpreadConstraints": [spread],
        "containers": [{"name": "main", "image": "example.org/none", "resources": {"requests": {"cpu": "100m"}}}],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "web"}, "spec": body}


async def ready_nodes(account: Account, path: str, name: str) -> int:
    return int((await account.direct.get(f"{path}/{name}")).get("status", {}).get("readyNodes", 0))


async def test_node_groups(control_plane: ControlPlane, namespace: str, home: str, groups: str, tmp_path: Path):
    # Its own time stands still: nothing of it may end, or run out, in the operator's.
    emulator = Emulator(
        SkippingClock(),
        clusters={"c1": VpsieCluster()},
        offerings=[SIZE],
        token_seconds=10 * 365 * 86_400.0,
        throttles=False,
    )
    where = ("--set", "providers.vpsie.secretName=cloud", "--set", f"providers.vpsie.secretNamespace={namespace}")
    async with emulator.running(), installed(control_plane, tmp_path, *CHOSEN, *where, home=home) as account:
        known = {"url": emulator.url, "clientId": "our-client-id", "clientSecret": "our-client-secret"}
        data = {name: base64.b64encode(value.encode()).decode() for name, value in known.items()}
        await account.direct.create(
            f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "cloud"}, "data": data}
        )
        try:
            await _grow_and_shrink(account, groups, namespace)
            await _order_and_give_back(account, groups, namespace, emulator)

            async def somewhere(datacenter: str) -> None:
                await account.direct.patch(f"{groups}/kwok", {"spec": {"datacenterID": datacenter}})

            await account.repeats_an_event(lambda: somewhere("no label!"), lambda: somewhere("dc-1"))
        finally:
            await _clear(account, control_plane, groups, namespace)
    assert account.complaints() == []


async def _grow_and_shrink(account: Account, groups: str, namespace: str) -> None:
    account.lose_the_reply("patch", "nodegroups/status")
    kwok = group("kwok", namespace, provider="kwok", offeringIDs=["small"], minNodes=1, desiredNodes=2)
    await account.direct.create(groups, kwok)
    await eventually(lambda: _is(account, groups, 2), "two nodes")
    pods = f"/api/v1/namespaces/{namespace}/pods"
    await account.direct.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", workload(namespace))

    async def two_on_each() -> bool:
        items = (await account.direct.get(pods))["items"]
        if [pod["status"]["phase"] for pod in items] != ["Running"] * 4:
            return False
        if sorted(Counter(pod["spec"]["nodeName"] for pod in items).values()) == [2, 2]:
            return True
        # The scheduler still saw the taint of a node that is not ready: all went to the other, and nothing would be drained.
        await account.direct.delete(pods)
        return False

    await eventually(two_on_each, "four pods run, two on each node")
    await account.direct.patch(f"{groups}/kwok", {"spec": {"desiredNodes": 1, "maxNodes": 1}})
    await account.asked_for("create", "pods/eviction", times=2)
    await eventually(lambda: _is(account, groups, 1), "one node")
    await account.asked_for("get", "nodegroups")
    await account.asked_for("list", "nodes")


async def _is(account: Account, groups: str, nodes: int) -> bool:
    members = groups.replace("nodegroups", "vpsienodes")
    return (
        await ready_nodes(account, groups, "kwok") == nodes
        and len((await account.direct.get(members))["items"]) == nodes
    )


async def _order_and_give_back(account: Account, groups: str, namespace: str, emulator: Emulator) -> None:
    await account.direct.create(groups, group("vpsie", namespace, offeringIDs=["7"], desiredNodes=1))
    await eventually(lambda: emulator.clusters["c1"].alive, "a node is ordered")
    await account.direct.delete(f"{groups}/vpsie")
    await eventually(lambda: not emulator.clusters["c1"].alive, "and given back")


async def _clear(account: Account, control_plane: ControlPlane, groups: str, namespace: str) -> None:
    """Leave nothing behind: finalizers would hold the namespace, and nodes would draw others' pods."""
    members = groups.replace("nodegroups", "vpsienodes")
    for one in (await account.direct.get(groups))["items"]:
        await account.direct.delete(f"{groups}/{one['metadata']['name']}")
    nodes = (await account.direct.get("/api/v1/nodes"))["items"]
    control_plane.remove_nodes(
        node["metadata"]["name"]
        for node in nodes
        if any(taint.get("value") == namespace for taint in node["spec"].get("taints", ()))
    )

    async def gone() -> bool:
        left = (await account.direct.get(members))["items"]
        return not left and not (await account.direct.get(groups))["items"]

    await eventually(gone, "groups and their members are gone")
