"""`plimsoll allocation show` and `migrate` on a cluster."""

from __future__ import annotations

import json

from plimsoll.controllers.allocation.migration import DRIVE_CLAIMS, PORT_CLAIMS
from tests.allocation.environment import Stage
from tests.allocation.test_real_lost_status import command
from tools.controlplane.cluster import ControlPlane


async def test_show(stage: Stage, control_plane: ControlPlane) -> None:
    node = await stage.node("S1", "S2", "S3", blocked=("S3",), shared={"S4": 100})
    drive = {"virtualUUID": "v", "physicalUUID": "uuid-S4", "capacityGiB": 30, "serial": "S4"}
    await stage.container(
        "a", node=node, drives=1,
        status={
            "status": "x",
            "allocations": {"drives": ["S1"], "virtualDrives": [drive], "wekaPort": 35000, "agentPort": 35300},
        },
    )  # fmt: skip
    await stage.container("b", node=node, drives=1, status={"status": "x", "allocations": {"drives": ["S1"]}})
    await stage.container("c", node=node, drives=1)
    result = await command(stage, control_plane, "show", "--node", node, "-o", "json")
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)
    names = [f"{stage.namespace}/{name}" for name in "abc"]
    assert found["holders"][0] == {
        "container": names[0], "state": "committed", "drives": ["S1"], "sharedGib": {"S4": 30},
        "ports": ["35000-35099", "35300"],
    }  # fmt: skip
    assert found["freeDrives"] == ["S2"]
    assert found["blockedDrives"] == ["S3"]
    assert found["shared"] == [{"serial": "S4", "capacityGib": 100, "freeGib": 70, "blocked": False}]
    assert names[2] in found["waiting"]
    assert found["conflicts"] == [f"drive S1 is held by {names[0]} and {names[1]}"]
    table = await command(stage, control_plane, "show", "--node", node)
    assert names[0] in table.stdout
    assert "drive S1 is held by" in table.stdout
    await stage.own_doing()


async def test_migrate(stage: Stage, control_plane: ControlPlane) -> None:
    node = await stage.node("S1", "S2")
    await stage.container(
        "a", node=node, drives=1, status={"status": "x", "allocations": {"drives": ["S1"], "wekaPort": 35000}}
    )
    owner = f"cluster:{stage.namespace}:a"
    claims = {"S1": owner, "S2": owner}
    await stage.annotate_node(node, {DRIVE_CLAIMS: json.dumps(claims), PORT_CLAIMS: json.dumps({"35000,100": owner})})
    before = await stage.storage_annotations(node)

    told = await command(stage, control_plane, "migrate", "--node", node)
    assert told.exit_code == 1, "something differs"
    assert f"{DRIVE_CLAIMS} S2 of {stage.namespace}/a: differs" in told.output
    assert f"would be removed: {PORT_CLAIMS}" in told.output
    assert await stage.storage_annotations(node) == before

    applied = await command(stage, control_plane, "migrate", "--apply", "--node", node)
    assert applied.exit_code == 1
    now = await stage.storage_annotations(node)
    assert PORT_CLAIMS not in now
    assert json.loads(now[DRIVE_CLAIMS]) == claims
    await stage.annotate_node(node, {DRIVE_CLAIMS: json.dumps({"S1": owner, "S9": f"cluster:{stage.namespace}:gone"})})
    applied = await command(stage, control_plane, "migrate", "--apply", "--node", node)
    assert applied.exit_code == 0, applied.output
    left = await stage.storage_annotations(node)
    assert DRIVE_CLAIMS not in left
    assert left["weka.io/weka-drives"] == before["weka.io/weka-drives"], "the inventory stays"
