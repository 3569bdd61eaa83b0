"""A cluster with the CRDs that the VPSie autoscaler deploys, which prune what they do not know."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import yaml

from plimsoll.controllers.nodegroups.report import status_nodes
from plimsoll.controllers.nodegroups.scale_up.scale_up import GroupOrder, ScaleUpOrders
from plimsoll.controllers.nodegroups.types import VPSieNode
from plimsoll.kube.codec import convert
from tests.cli.command import plimsoll
from tests.faults.upstream import Direct, Upstream
from tests.kinds import install
from tests.migrating.test_vpsie_schema import GROUP, MEMBER, PEERS, state
from tests.realcluster import StartControlPlane


@pytest.mark.skipif(not PEERS.is_dir(), reason="the deployed schemas are not at hand")
async def test_its_objects_are_read_and_explained(new_control_plane: StartControlPlane) -> None:
    cluster = new_control_plane(components={"scheduler": False, "controller-manager": False, "kwok": False})
    definitions = [yaml.safe_load(path.read_text()) for path in sorted(PEERS.glob("*.yaml"))]
    await asyncio.to_thread(install, cluster, definitions)
    base = "/apis/autoscaler.vpsie.com/v1alpha1/namespaces/default"
    async with Direct(Upstream.from_kubeconfig(cluster.kubeconfig)) as direct:
        for plural, kind, body in (("nodegroups", "NodeGroup", GROUP), ("vpsienodes", "VPSieNode", MEMBER)):
            name = body["metadata"]["name"]
            whole: dict[str, Any] = {
                "apiVersion": "autoscaler.vpsie.com/v1alpha1",
                "kind": kind,
                "metadata": {"name": name},
            }
            await direct.create(f"{base}/{plural}", {**whole, "spec": body["spec"]})
            await direct.patch(f"{base}/{plural}/{name}/status", {"status": body["status"]})
        stored = await direct.get(f"{base}/vpsienodes/workers-0")
        assert stored["spec"]["vpsieInstanceID"] == 41
        for thing in ("nodegroup/workers", "vpsienode/workers-0"):
            told = await asyncio.to_thread(plimsoll, "explain", thing, "--kubeconfig", str(cluster.kubeconfig))
            assert told.exit_code == 0, told.output
            assert "controller    nodegroups" in told.stdout or "nodes         1 current" in told.stdout, told.stdout
        # What we write fits.
        orders = ScaleUpOrders(orders={"default/workers": GroupOrder(2, ("7",))})
        (creation,) = orders.creations(state(), "plimsoll-system")
        body = {**creation.body, "metadata": {**creation.body["metadata"], "name": creation.name}}
        made = await direct.create(
            f"{base}/vpsienodes", {"apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode", **body}
        )
        written = convert(made, VPSieNode).spec.instance_id_to_write("42")
        changed = await direct.patch(f"{base}/vpsienodes/{creation.name}", {"spec": {"vpsieInstanceID": written}})
        assert changed["spec"]["vpsieInstanceID"] == 42
        wanted, _ = status_nodes(state())
        await direct.patch(f"{base}/nodegroups/workers/status", {"status": {"nodes": wanted}})
