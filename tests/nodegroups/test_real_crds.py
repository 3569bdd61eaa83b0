"""The API server refuses what nobody could follow, in sentences; keeps what we do not know; and scales."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.controllers.nodegroups.crds import REQUIRED
from plimsoll.controllers.nodegroups.types import NODE_GROUPS, VPSIE_NODES
from tools.controlplane.api import ApiError
from tools.controlplane.cluster import ControlPlane

pytestmark = pytest.mark.usefixtures("node_group_kinds")


def group(name: str = "workers", **changed: Any) -> dict[str, Any]:
    spec = {
        "minNodes": 1, "maxNodes": 5, "datacenterID": "dc-1", "resourceIdentifier": "cluster-1", "project": "p",
        "offeringIDs": ["small", "large"], "kubernetesVersion": "v1.36.3", **changed,
    }  # fmt: skip
    spec = {field: value for field, value in spec.items() if value is not None}
    return {"apiVersion": NODE_GROUPS.api_version, "kind": "NodeGroup", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"minNodes": 6}, "minNodes is above maxNodes; lower minNodes or raise maxNodes"),
        ({"minNodes": -1}, "spec.minNodes in body should be greater than or equal to 0"),
        ({"offeringIDs": []}, "offeringIDs is empty; name at least one offering"),
        ({"preferredInstanceType": "huge"}, "preferredInstanceType is huge, which is none of offeringIDs"),
        ({"desiredNodes": 9}, "desiredNodes must lie between minNodes and maxNodes"),
        ({"scaleDownPolicy": {"cpuThreshold": 101}}, "cpuThreshold in body should be less than or equal to 100"),
        ({"scaleDownPolicy": {"memoryThreshold": -1}}, "memoryThreshold in body should be greater than or equal to 0"),
        ({"scaleDownCooldown": "ten minutes"}, 'is not a duration; write it like "90s", "10m" or "1h30m"'),
        ({"scaleDownPolicy": {"underutilizationDuration": "10"}}, "is not a duration"),
        *(({field: None}, f"spec.{field}: Required value") for field in REQUIRED),
    ],
)
def test_bad_groups_are_refused(
    control_plane: ControlPlane, namespace: str, changed: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ApiError) as refused:
        control_plane.request("POST", NODE_GROUPS.path(namespace), group(**changed))
    assert refused.value.status == 422
    assert sentence in str(refused.value)


def test_unknown_fields_are_kept(control_plane: ControlPlane, namespace: str) -> None:
    ours = group(spotConfig={"enabled": True}, costOptimization={"strategy": "x"}, kubeSizeID=7)
    control_plane.request("POST", NODE_GROUPS.path(namespace), ours)
    path = NODE_GROUPS.path(namespace, "workers")
    status = {"status": {"vpsieGroupID": 12, "currentNodes": 3}}
    control_plane.request("PATCH", f"{path}/status", status, content_type="application/merge-patch+json")
    found = control_plane.request("GET", path)
    assert found["spec"]["spotConfig"] == {"enabled": True}
    assert found["spec"]["kubeSizeID"] == 7
    assert found["status"]["vpsieGroupID"] == 12
    node = {
        "apiVersion": VPSIE_NODES.api_version, "kind": "VPSieNode", "metadata": {"name": "n"},
        "spec": {"nodeGroupName": "workers", "vpsieGroupID": 12, "vpsieNodeIdentifier": "x"},
    }  # fmt: skip
    made = control_plane.request("POST", VPSIE_NODES.path(namespace), node)
    assert made["spec"] == node["spec"]


def test_kubectl_scales_and_prints(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.request("POST", NODE_GROUPS.path(namespace), group())
    control_plane.kubectl("-n", namespace, "scale", "nodegroup", "workers", "--replicas=3")
    assert control_plane.request("GET", NODE_GROUPS.path(namespace, "workers"))["spec"]["desiredNodes"] == 3
    printed = control_plane.kubectl("-n", namespace, "get", "ng")
    assert printed.split()[:7] == ["NAME", "MIN", "MAX", "DESIRED", "CURRENT", "READY", "AGE"]
