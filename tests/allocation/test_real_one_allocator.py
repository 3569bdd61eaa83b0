"""The policy of the documentation: another operator may write what it likes to a container's status, but no drives and ports."""

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


async def test_drives_and_ports_are_refused_and_nothing_else(stage: Stage) -> None:
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
    held = {"drives": ["S1"], "wekaPort": 35000, "agentPort": 35300, "failureDomain": "fd-1"}
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
        assert await refused("a", {"drives": ["S1", "S3"]})
        assert await refused("a", {"wekaPort": 36000})
        assert await refused("a", {"virtualDrives": [{"virtualUUID": "v"}]})
        assert await refused("a", None), "nor may it lose what is held"
        assert not await refused("a", {"failureDomain": "fd-2"})
        assert await stage.allocations("a") == {**held, "failureDomain": "fd-2"}
    finally:
        await stage.direct.delete(f"{PATH}/one-allocator")
        await stage.direct.delete(f"{PATH.replace('policies', 'policybindings')}/one-allocator")
    await stage.own_doing()
