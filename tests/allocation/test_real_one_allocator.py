"""The policy of the documentation: the storage operator may remove and reorder drives, and add no drives or ports."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from tests.allocation.environment import Stage
from tests.eventually import eventually
from tests.faults.upstream import Json, RefusedError

POLICY = Path(__file__).parents[2] / "examples" / "one_allocator" / "policy.yaml"
PATH = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
THEIRS = "system:serviceaccount:weka-operator-system:weka-operator-controller-manager"


def virtual(uuid: str, gib: int = 1) -> Json:
    return {"virtualUUID": uuid, "physicalUUID": "p", "capacityGiB": gib, "serial": "S9", "type": "TLC"}


async def test_additions_are_refused_and_nothing_else(stage: Stage) -> None:
    policy, binding = yaml.safe_load_all(POLICY.read_text())
    review: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    reviewed = await stage.direct.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    me = reviewed["status"]["userInfo"]["username"]
    (condition,) = policy["spec"]["matchConditions"]
    assert THEIRS in condition["expression"]
    mine = condition["expression"].replace(THEIRS, me)
    policy["spec"]["matchConditions"] = [{**condition, "expression": mine}]
    # Other tests share the cluster, and the account: only this test's namespace is under the policy.
    own = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": [stage.namespace]}]}
    policy["spec"]["matchConstraints"]["namespaceSelector"] = own
    node = await stage.node("S1", "S2", "S3")
    held = {
        "drives": ["S1", "S2"], "wekaPort": 35000, "agentPort": 35300, "failureDomain": "fd-1",
        "virtualDrives": [virtual("v1"), virtual("v2")],
    }  # fmt: skip
    await stage.container("a", node=node, drives=1, status={"status": "Running", "allocations": held})
    await stage.container("new", node=node, drives=1)

    async def refused(name: str, allocations: Mapping[str, Any] | None) -> bool:
        try:
            await stage.set_status(name, {"status": "x", "allocations": allocations})
        except RefusedError as error:
            assert "one-allocator" in str(error)  # noqa: PT017 - not for another reason
            return True
        return False

    await stage.direct.create(PATH, policy)
    try:
        await stage.direct.create(PATH.replace("policies", "policybindings"), binding)
        ports = count(40_000, 100)  # an attempt that came too early is in the status: the next one must differ
        await eventually(lambda: refused("new", {"wekaPort": next(ports)}), "the policy is in force")
        assert await refused("a", {"drives": ["S1", "S2", "S3"]})
        assert await refused("a", {"wekaPort": 36000})
        assert await refused("a", {"virtualDrives": [{"virtualUUID": "v"}]})
        assert await refused("a", None), "nor may it lose what is held"
        assert not await refused("a", {"failureDomain": "fd-2"})
        assert await refused("a", {"drives": ["S1", "S1"]}), "the same drive twice is no reordering"
        assert await refused("a", {"drives": ["S3", "S2"]}), "one removed and another added"
        assert not await refused("a", {"drives": ["S2", "S1"]}), "sorted in place"
        assert not await refused("a", {"drives": ["S2"]}), "a failed drive is removed first"
        assert await refused("a", {"drives": ["S1", "S2"]}), "and does not come back"
        assert not await refused("a", {"virtualDrives": [virtual("v2")]})
        assert await refused("a", {"virtualDrives": [virtual("v2", 2)]})
        kept = {"drives": ["S2"], "failureDomain": "fd-2", "virtualDrives": [virtual("v2")]}
        assert await stage.allocations("a") == {**held, **kept}
    finally:
        await stage.direct.delete(f"{PATH}/one-allocator")
        await stage.direct.delete(f"{PATH.replace('policies', 'policybindings')}/one-allocator")
    await stage.own_doing()
