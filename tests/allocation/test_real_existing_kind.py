"""A cluster that has the kind already, installed by its owner: strict conditions, a required field, and silence about fields of
status that it does not know."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

from plimsoll.controllers.allocation.conditions import LONGEST_MESSAGE
from plimsoll.controllers.allocation.crd import crd
from tests.allocation.environment import Allocator, Stage
from tests.clocks import PushedClock
from tests.eventually import eventually
from tests.faults.history import History
from tests.faults.proxy import Proxy
from tests.faults.record import Record
from tests.faults.rules import Rules, on
from tests.faults.upstream import Direct, Upstream
from tests.kinds import install
from tests.realcluster import StartControlPlane

CONDITION = {
    "type": "object",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "message": {"type": "string", "maxLength": LONGEST_MESSAGE},
        "observedGeneration": {"type": "integer", "minimum": 0},
        "reason": {
            "type": "string", "minLength": 1, "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "type": {"type": "string", "maxLength": 316, "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"},
    },
}  # fmt: skip


def their_crd() -> dict[str, Any]:
    """The kind with the conditions of the API's own conventions; what it does not know, it drops."""
    theirs = copy.deepcopy(crd())
    (version,) = theirs["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    schema["status"]["properties"]["conditions"]["items"] = CONDITION
    schema["status"]["required"] = ["status"]
    _strict(schema["status"])
    return theirs


def _strict(part: dict[str, Any]) -> None:
    part.pop("x-kubernetes-preserve-unknown-fields", None)
    for inner in [*part.get("properties", {}).values(), *([part["items"]] if "items" in part else [])]:
        _strict(inner)


async def test_it_is_waited_for_and_used_as_it_is(new_control_plane: StartControlPlane, tmp_path: Path) -> None:
    cluster = new_control_plane(components={"scheduler": False, "controller-manager": False, "kwok": False})
    namespace = cluster.add_namespace()
    upstream = Upstream.from_kubeconfig(cluster.kubeconfig)
    path = f"/apis/weka.weka.io/v1alpha1/namespaces/{namespace}/wekacontainers"
    clock = PushedClock()
    async with Direct(upstream) as direct, Proxy(upstream, Record(), [Rules()], tmp_path) as proxy:
        stage = Stage(namespace, [], direct, proxy, Rules(), History(direct, [path]))
        async with stage.operator(clock=clock) as operator:
            await eventually(lambda: operator.operator.not_ready() is None, "it is ready without the kind")
            assert {one.answered for one in stage.record.of(on("list", "wekacontainers"))} == {404}
            await asyncio.to_thread(install, cluster, [their_crd()])
            async with stage.history:
                clock.push(30)  # that long, at most, until it is looked for again
                await _use(stage, operator)


async def _use(stage: Stage, operator: Allocator) -> None:
    node = await stage.node("S1", "S2", shared={"S3": 1500})
    await stage.container("never-seen", node=node, drives=1)
    await stage.container("bad", node=node, drives=-1)
    await stage.container("parts", node=node, spec={"driveCapacity": 400, "numDrives": 3})
    other = {
        "type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    await stage.container("known", node=node, drives=1, status={"status": "Init", "conditions": [other]})
    await stage.all_served(["never-seen", "known", "parts"])
    await operator.look()
    known = (await stage.get("known"))["status"]
    assert (known["status"], known["conditions"][0]) == ("Init", other)
    assert (await stage.condition("bad"))["reason"] == "InvalidSpec"
    drives = (await stage.allocations("parts"))["virtualDrives"]
    assert [drive["capacityGiB"] for drive in drives] == [400, 400, 400]
    await stage.judged()
