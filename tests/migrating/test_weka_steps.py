"""The storage operator's own order of steps, on both clusters: new backends, a client, a failed drive, a node that goes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from plimsoll.controllers.allocation.controller import AllocationController
from plimsoll.controllers.allocation.crd import crd
from plimsoll.runtime.operator import identity
from tests.allocation.environment import config, settings
from tests.conformance.sides import MERGE, Json, Side, embedded_side, installed, real_side
from tests.eventually import eventually
from tests.faults.life import Life
from tests.migrating.storage_operator import StorageOperator, cluster_crd
from tools.controlplane.cluster import ControlPlane

DRIVES = ["S1", "S2", "S3", "S4", "S5"]


@pytest.fixture(params=["embedded", "real"])
async def side(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Side]:
    if request.param == "embedded":
        async with embedded_side(tmp_path) as found:
            yield found
        return
    plane: ControlPlane = request.getfixturevalue("control_plane")
    nodes: Callable[[str], list[str]] = request.getfixturevalue("kwok_nodes")
    async with real_side(plane, request.getfixturevalue("namespace"), nodes) as found:
        yield found


@asynccontextmanager
async def plimsoll(side: Side) -> AsyncIterator[Life]:
    controller = AllocationController(settings(side.namespace), nonce=identity())
    link = cast("Any", SimpleNamespace(name="plimsoll", kubeconfig=side.kubeconfig))
    life = Life(link, config(side.namespace, alone=True), [controller])
    try:
        yield life
    finally:
        await life.stop()


async def machine(side: Side) -> str:
    (name,) = await side.add_nodes("1 zone=a class=on-demand cpu=16")
    changed = {"annotations": {"weka.io/weka-drives": json.dumps(DRIVES)}, "labels": {"example.org/rack": "rack-1"}}
    code, _ = await side.ask("PATCH", f"/api/v1/nodes/{name}", {"metadata": changed}, form=MERGE)
    assert code == 200
    return name


def nothing_twice(containers: list[Json]) -> None:
    held = [
        thing
        for one in containers
        if (allocations := one.get("status", {}).get("allocations"))
        for thing in (*(allocations.get("drives") or ()), allocations.get("wekaPort"), allocations.get("agentPort"))
        if thing
    ]
    assert len(held) == len(set(held)), held


async def test_backends_clients_a_failed_drive_and_a_deleted_container(side: Side) -> None:
    async with installed(side, crd(), cluster_crd()):
        node = await machine(side)
        theirs = StorageOperator(side, side.namespace)
        await theirs.form_cluster(basePort=45000, portRange=500, lbPort=45000, s3Port=45300)

        async def running(name: str, drives: int) -> Json | None:
            status = (await theirs.get(name)).get("status", {})
            held = status.get("allocations", {}).get("drives") or []
            return status if status.get("status") == "Running" and len(held) == drives else None

        async with theirs.at_work(), plimsoll(side):
            domain = {"failureDomain": {"label": "example.org/rack"}}
            for name in ("backend-0", "backend-1"):
                await theirs.add(name, "drive", numDrives=2, numCores=1, **domain)
            await theirs.add("client-0", "client", numCores=1)
            first = await eventually(lambda: running("backend-0", 2), "backend-0 runs", seconds=30)
            second = await eventually(lambda: running("backend-1", 2), "backend-1 runs", seconds=30)
            given = [first["allocations"], second["allocations"]]
            assert {one["failureDomain"] for one in given} == {"rack-1"}
            assert sorted(one["wekaPort"] for one in given) == [45001, 45101], "behind the load balancer's port"
            assert sorted(one["agentPort"] for one in given) == [45301, 45302], "not the S3 port"
            assert first["nodeAffinity"] == node

            failed = first["allocations"]["drives"][0]
            await theirs.fail_drive("backend-0", node, failed)
            replaced = await eventually(lambda: running("backend-0", 2), "the drive is replaced", seconds=30)
            assert failed not in replaced["allocations"]["drives"]
            assert replaced["allocations"]["wekaPort"] == first["allocations"]["wekaPort"]

            await theirs.add("backend-2", "drive", numDrives=2, numCores=1)

            async def short() -> Json | None:
                status = (await theirs.get("backend-2")).get("status", {})
                return next((c for c in status.get("conditions", ()) if c["type"] == "Allocated"), None)

            waits = await eventually(short, "backend-2 says why it waits", seconds=30)
            assert (waits["status"], waits["reason"]) == ("False", "InsufficientDrives")
            await side.ask("DELETE", f"{theirs.containers}/backend-1")
            await side.ask("DELETE", side.path("pods", "backend-1"))
            await eventually(lambda: running("backend-2", 2), "what was freed is given to it", seconds=45)
            client = (await theirs.get("client-0"))["status"]
            assert "allocations" not in client
            assert not [c for c in client.get("conditions", ()) if c["type"] == "Allocated"], "clients are left alone"
        _, listing = await side.ask("GET", theirs.containers)
        nothing_twice(listing["items"])
        for one in listing["items"]:
            await side.ask("DELETE", f"{theirs.containers}/{one['metadata']['name']}")


async def test_a_node_that_goes(side: Side) -> None:
    """Its containers are deleted with it and created anew elsewhere; the lease of the node goes, too."""
    async with installed(side, crd(), cluster_crd()):
        former = await machine(side)
        theirs = StorageOperator(side, side.namespace)
        await theirs.form_cluster(basePort=45000, portRange=500)

        async def node_of(name: str) -> str | None:
            status = (await theirs.get(name)).get("status", {})
            found: str | None = status.get("nodeAffinity") if status.get("allocations") else None
            return found

        async with theirs.at_work(), plimsoll(side):
            await theirs.add("backend-0", "drive", numDrives=2, numCores=1)
            assert await eventually(lambda: node_of("backend-0"), "backend-0 is served", seconds=30) == former
            other = await machine(side)
            await side.ask("DELETE", f"/api/v1/nodes/{former}")
            await side.ask("DELETE", f"{theirs.containers}/backend-0")
            await side.ask("DELETE", side.path("pods", "backend-0"), {"gracePeriodSeconds": 0})
            await side.gone(side.path("pods", "backend-0"))
            await theirs.add("backend-0", "drive", numDrives=2, numCores=1)
            assert await eventually(lambda: node_of("backend-0"), "it is served elsewhere", seconds=45) == other
            leases = side.path("leases", group="coordination.k8s.io/v1")
            await side.gone(f"{leases}/weka-allocator-{former}")
        await side.ask("DELETE", f"{theirs.containers}/backend-0")


async def test_their_own_step_keeps_running_and_is_refused(side: Side) -> None:
    """It cannot be switched off: it takes the lease and fails, again and again. Ours lands within seconds."""
    async with installed(side, crd(), cluster_crd()):
        await machine(side)
        theirs = StorageOperator(side, side.namespace)
        await theirs.form_cluster(basePort=45000, portRange=500)
        await theirs.add("backend-0", "drive", numDrives=2, numCores=1)
        async with theirs.at_work(seconds=0.1):
            await eventually(lambda: theirs.attempts >= 3, "their step is at it", seconds=30)
            async with plimsoll(side):

                async def allocated() -> bool:
                    return bool((await theirs.get("backend-0"))["status"].get("allocations"))

                await eventually(allocated, "ours lands", seconds=20)
        await side.ask("DELETE", f"{theirs.containers}/backend-0")


async def test_both_allocate_and_nothing_is_given_twice(side: Side) -> None:
    async with installed(side, crd(), cluster_crd()):
        await machine(side)
        theirs = StorageOperator(side, side.namespace, allocates=True)
        await theirs.form_cluster(basePort=45000, portRange=500)
        names = [f"backend-{n}" for n in range(3)]
        async with theirs.at_work(seconds=0.05), plimsoll(side):
            for name in names:
                await theirs.add(name, "drive", numDrives=1, numCores=1)

            async def all_running() -> bool:
                statuses = [(await theirs.get(name)).get("status", {}).get("status") for name in names]
                return statuses == ["Running"] * 3

            await eventually(all_running, "all have an allocation", seconds=45)
        _, listing = await side.ask("GET", theirs.containers)
        nothing_twice(listing["items"])
        for name in names:
            await side.ask("DELETE", f"{theirs.containers}/{name}")
