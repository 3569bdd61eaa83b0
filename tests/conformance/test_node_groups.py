"""What the controller of node groups does to its own kinds and to nodes, request by request."""

from __future__ import annotations

from typing import Any

from plimsoll.controllers.nodegroups.crds import node_group_crds
from tests.conformance.sides import MERGE, Json, Side, installed, same

_GROUP = "autoscaler.vpsie.com/v1alpha1"
_NOBODY = "00000000-0000-4000-8000-000000000000"
_SPEC: Json = {
    "minNodes": 1, "maxNodes": 5, "datacenterID": "d", "resourceIdentifier": "r", "project": "p", "offeringIDs": ["small"],
    "kubernetesVersion": "v1.36.3",
}  # fmt: skip


async def test_node_groups(both: tuple[Side, Side]) -> None:
    await same(node_groups, both)


def _group(name: str, **spec: Any) -> Json:
    return {"apiVersion": _GROUP, "kind": "NodeGroup", "metadata": {"name": name}, "spec": {**_SPEC, **spec}}


async def node_groups(side: Side) -> None:
    async with installed(side, *node_group_crds()):
        await _groups(side)
        await _machines(side)


async def _groups(side: Side) -> None:
    groups = side.path("nodegroups", group=_GROUP)
    show = ("spec", "status", "metadata.generation")
    made = await side.tell(
        "made, and what we do not know is kept", "POST", groups, _group("g", spotConfig={"a": 1}), show=show
    )
    wrong: dict[str, Json] = {
        "smallest above largest": {"minNodes": 6},
        "no offerings": {"offeringIDs": []},
        "a preference for what is not offered": {"preferredInstanceType": "huge"},
        "more wanted than there may be": {"desiredNodes": 9},
        "no duration": {"scaleUpCooldown": "soon"},
        "less than none": {"minNodes": -1},
    }
    for what, spec in wrong.items():
        code, answer = await side.ask("POST", groups, _group("bad", **spec))
        causes = [[one.get("reason"), one.get("field")] for one in answer["details"]["causes"]]
        side.note(what, [code, answer["reason"], causes])
    path = f"{groups}/g"
    await side.tell("no scale while nobody wants any number", "GET", f"{path}/scale")
    scale = ("kind", "spec", "status")
    await side.tell("scaled", "PATCH", f"{path}/scale", {"spec": {"replicas": 3}}, form=MERGE, show=scale)
    await side.tell("its scale", "GET", f"{path}/scale", show=scale)
    await side.tell("what was scaled", "GET", path, show=("spec.desiredNodes", "metadata.generation"))
    code, answer = await side.ask("PATCH", f"{path}/scale", {"spec": {"replicas": 9}}, form=MERGE)
    side.note("beyond the largest", [code, answer["reason"]])
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "status": {"currentNodes": 1}}
    await side.tell("a stale status", "PATCH", f"{path}/status", stale, form=MERGE)
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "R",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {
        "currentNodes": 3,
        "readyNodes": 3,
        "conditions": [condition],
        "lastScaleTime": "2026-01-01T00:00:00.000001Z",
    }
    await side.tell("a status", "PATCH", f"{path}/status", {"status": status}, form=MERGE, show=show)
    await side.tell("gone", "DELETE", path, {"preconditions": {"uid": made["metadata"]["uid"]}})


async def _machines(side: Side) -> None:
    machines = side.path("vpsienodes", group=_GROUP)
    body = {
        "apiVersion": _GROUP, "kind": "VPSieNode", "metadata": {"name": "m", "finalizers": ["autoscaler.vpsie.com/vpsienode"]},
        "spec": {"nodeGroupName": "g", "instanceType": "small"},
    }  # fmt: skip
    made = await side.tell("ordered", "POST", machines, body, show=("spec", "metadata.finalizers"))
    await side.tell("ordered twice", "POST", machines, body)
    path, uid = f"{machines}/m", made["metadata"]["uid"]
    await side.tell("another one is meant", "DELETE", path, {"preconditions": {"uid": _NOBODY}})
    await side.ask("DELETE", path, {"preconditions": {"uid": uid}})
    _, going = await side.ask("GET", path)
    side.note("it goes", "deletionTimestamp" in going["metadata"])
    version = going["metadata"]["resourceVersion"]
    await side.tell(
        "not by whoever saw it last week", "PATCH", path,
        {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"], "uid": uid, "finalizers": []}}, form=MERGE,
    )  # fmt: skip
    gone = {"metadata": {"resourceVersion": version, "uid": uid, "finalizers": []}}
    await side.tell("it is gone", "PATCH", path, gone, form=MERGE, show=("metadata.finalizers",))
    await side.tell("nobody is there", "GET", path)


async def test_removing_nodes(both: tuple[Side, Side]) -> None:
    await same(removing_nodes, both)


async def removing_nodes(side: Side) -> None:
    (name,) = await side.add_nodes("1")
    side.call(name, "NODE")
    path = f"/api/v1/nodes/{name}"

    def is_ready(node: Json) -> bool:
        conditions = node["status"].get("conditions") or ()
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    found = await side.until(path, is_ready, "the node is ready")
    metadata = {"uid": found["metadata"]["uid"]}
    taint = {"key": "plimsoll.dev/leaving", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
    show = ("spec.taints", "metadata.generation")
    await side.tell("marked", "PATCH", path, {"metadata": metadata, "spec": {"taints": [taint]}}, form=MERGE, show=show)
    doubled = {"spec": {"taints": [taint, taint]}}
    code, answer = await side.ask("PATCH", path, doubled, form=MERGE)
    side.note("marked twice", [code, answer.get("reason")])
    code, answer = await side.ask(
        "PATCH", path, {"spec": {"taints": [{"key": "x", "effect": "Sometimes"}]}}, form=MERGE
    )
    side.note("an effect that there is not", [code, answer.get("reason")])
    await side.tell(
        "another node is meant", "PATCH", path, {"metadata": {"uid": _NOBODY}, "spec": {"taints": None}}, form=MERGE
    )
    await side.tell("unmarked", "PATCH", path, {"metadata": metadata, "spec": {"taints": None}}, form=MERGE, show=show)
    await side.tell("another node is to go", "DELETE", path, {"preconditions": {"uid": _NOBODY}})
    await side.tell("it goes", "DELETE", path, {"preconditions": metadata})
    await side.gone(path)
