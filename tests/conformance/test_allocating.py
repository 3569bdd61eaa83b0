"""What an allocator does to containers and to the lease of a node, request by request."""

from __future__ import annotations

from plimsoll.controllers.allocation.crd import crd
from tests.conformance.sides import MERGE, Json, Side, installed, same

_GROUP = "weka.weka.io/v1alpha1"
_LEASES = "coordination.k8s.io/v1"


async def test_allocating(both: tuple[Side, Side]) -> None:
    await same(allocating, both)


async def allocating(side: Side) -> None:
    async with installed(side, crd()):
        await _containers(side)
    await _tenures(side)


def _condition(kind: str, status: str, message: str) -> Json:
    moment = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": status, "reason": kind, "message": message, "lastTransitionTime": moment}


async def _containers(side: Side) -> None:
    containers = side.path("wekacontainers", group=_GROUP)
    spec = {"nodeAffinity": "n", "mode": "drive", "numDrives": 2, "numCores": 1, "unknown": {"kept": True}}
    body = {"apiVersion": _GROUP, "kind": "WekaContainer", "metadata": {"name": "c"}, "spec": spec}
    show = ("spec", "status", "metadata.generation")
    made = await side.tell("made", "POST", containers, body, show=show)
    path = f"{containers}/c/status"

    def written(version: str, uid: str, status: Json) -> Json:
        return {"metadata": {"resourceVersion": version, "uid": uid}, "status": status}

    uid, first = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    proposal = {"conditions": [_condition("Proposed", "True", "epoch 7")]}
    proposed = await side.tell("proposed", "PATCH", path, written(first, uid, proposal), form=MERGE, show=show)
    await side.tell("proposed by another in the meantime", "PATCH", path, written(first, uid, proposal), form=MERGE)
    second = proposed["metadata"]["resourceVersion"]
    committed = {
        "allocations": {"drives": ["SN-1", "SN-2"], "wekaPort": 35000, "agentPort": 35300},
        "conditions": [_condition("Allocated", "True", "two drives")],
    }
    await side.tell("committed", "PATCH", path, written(second, uid, committed), form=MERGE, show=show)
    await side.tell("committed late", "PATCH", path, written(second, uid, {"allocations": None}), form=MERGE)
    await side.tell("what is held", "GET", f"{containers}/c", show=show)


async def _tenures(side: Side) -> None:
    leases = side.path("leases", group=_LEASES)
    moment = "2026-01-01T00:00:00.000000Z"
    spec = {"holderIdentity": "one", "leaseDurationSeconds": 30, "acquireTime": moment, "renewTime": moment}
    body = {
        "apiVersion": _LEASES,
        "kind": "Lease",
        "metadata": {"name": "node-n", "annotations": {"nonce": "a"}},
        "spec": spec,
    }
    show = ("spec", "metadata.annotations")
    made = await side.tell("taken", "POST", leases, body, show=show)
    await side.tell("taken by another in the meantime", "POST", leases, body)
    path = f"{leases}/node-n"
    version, uid = made["metadata"]["resourceVersion"], made["metadata"]["uid"]
    over = {"metadata": {"resourceVersion": version, "annotations": {"nonce": "b"}}, "spec": {"holderIdentity": "two"}}
    await side.tell("taken over", "PATCH", path, over, form=MERGE, show=show)
    await side.tell("taken over too late", "PATCH", path, over, form=MERGE)
    await side.tell(
        "released by whoever lost it", "DELETE", path, {"preconditions": {"uid": uid, "resourceVersion": version}}
    )
    _, now = await side.ask("GET", path)
    left = {"preconditions": {"uid": uid, "resourceVersion": now["metadata"]["resourceVersion"]}}
    await side.tell("released", "DELETE", path, left)
