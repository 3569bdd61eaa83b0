"""Allocation with its own rights: leases in one namespace, status of containers, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from plimsoll.controllers.allocation.crd import crd
from tests.allocation.build import container_body, drive_annotations
from tests.eventually import eventually
from tests.faults.upstream import Json
from tests.kinds import served
from tests.migrating.storage_operator import cluster_crd
from tests.rbac.account import Account, installed
from tools.controlplane.cluster import ControlPlane


@pytest.fixture
def containers(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    """The path of the test's containers."""
    with served(control_plane, [crd(), cluster_crd()]):
        yield f"/apis/weka.weka.io/v1alpha1/namespaces/{namespace}/wekacontainers"


async def add_node(account: Account, name: str, *drives: str) -> None:
    meta = {"name": name, "annotations": drive_annotations(drives)}
    await account.direct.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": meta})


async def test_allocation(control_plane: ControlPlane, namespace: str, home: str, containers: str, tmp_path: Path):
    kept, gone = f"{namespace}-kept", f"{namespace}-gone"
    chosen = ("--controllers", "allocation", "--set", f"allocation.namespace={namespace}")
    async with installed(control_plane, tmp_path, *chosen, home=home) as account:
        try:
            await add_node(account, kept, "S1")
            await add_node(account, gone, "S2")
            account.lose_the_reply("patch", "wekacontainers/status")
            for name, node in (("one", kept), ("two", gone)):
                await account.direct.create(containers, container_body(name, node=node, drives=1))

            async def allocated() -> bool:
                items: list[Json] = (await account.direct.get(containers))["items"]
                return all("allocations" in item.get("status", {}) for item in items)

            await eventually(allocated, "both have a drive")
            await account.asked_for("get", "wekacontainers")
            await account.direct.delete(f"{containers}/two")
            await account.direct.delete(f"/api/v1/nodes/{gone}")
            await account.asked_for("delete", "leases")

            async def drives(count: int) -> None:
                await account.direct.patch(f"{containers}/one", {"spec": {"numDrives": count}})

            await account.repeats_an_event(lambda: drives(-1), lambda: drives(1))
        finally:
            control_plane.remove_nodes([kept])
            await account.direct.delete(f"{containers}/one")
    assert account.complaints() == []
