"""Objects under the CRDs that the VPSie autoscaler deploys: integer ids, objects in `status.nodes`, unknown fields pruned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll.controllers.nodegroups.group_state import GroupState
from plimsoll.controllers.nodegroups.members import GroupMembers
from plimsoll.controllers.nodegroups.report import status_nodes
from plimsoll.controllers.nodegroups.scale_up.scale_up import GroupOrder, ScaleUpOrders
from plimsoll.controllers.nodegroups.types import NodeGroup, VPSieNode
from plimsoll.kube.codec import convert

PEERS = Path(__file__).parents[3] / "shared" / "peers" / "vpsie"
GROUP: dict[str, Any] = {
    "metadata": {"name": "workers", "namespace": "default", "uid": "g", "resourceVersion": "1"},
    "spec": {
        "minNodes": 1, "maxNodes": 5, "datacenterID": "dc-1", "resourceIdentifier": "c1", "project": "p",
        "offeringIDs": ["7"], "kubernetesVersion": "v1.36.3", "kubeSizeID": 4,
    },
    "status": {
        "currentNodes": 1, "desiredNodes": 1, "readyNodes": 1, "vpsieGroupID": 12,
        "nodes": [{"nodeName": "worker-0", "vpsID": 41, "status": "Ready", "instanceType": "7", "ipAddress": "10.0.0.1"}],
        "conditions": [{"type": "Ready", "status": "True", "lastUpdateTime": "2026-01-01T00:00:00Z"}],
    },
}  # fmt: skip
MEMBER: dict[str, Any] = {
    "metadata": {"name": "workers-0", "namespace": "default", "uid": "m", "resourceVersion": "1"},
    "spec": {
        "nodeGroupName": "workers", "datacenterID": "dc-1", "instanceType": "7", "kubernetesVersion": "v1.36.3", "project": "p",
        "resourceIdentifier": "c1", "vpsieInstanceID": 41, "vpsieGroupID": 12, "vpsieNodeIdentifier": "x0", "nodeName": "worker-0",
    },
    "status": {"phase": "Ready", "nodeName": "worker-0", "resources": {"cpu": 2, "memoryMB": 4096, "diskGB": 40, "bandwidthGB": 1000}},
}  # fmt: skip


def test_objects_are_read_with_integer_or_string_ids_and_both_forms_of_nodes() -> None:
    member = convert(MEMBER, VPSieNode)
    assert member.spec.vpsie_instance_id == "41"
    assert convert({**MEMBER, "spec": {**MEMBER["spec"], "vpsieInstanceID": 0}}, VPSieNode).spec.vpsie_instance_id == ""
    assert (
        convert({**MEMBER, "spec": {**MEMBER["spec"], "vpsieInstanceID": "vm-1"}}, VPSieNode).spec.vpsie_instance_id
        == "vm-1"
    )
    assert convert(GROUP, NodeGroup).status.nodes is not None
    assert convert({**GROUP, "status": {"nodes": ["worker-0"]}}, NodeGroup).status.nodes == ("worker-0",)


def test_an_id_is_written_in_the_form_that_is_there() -> None:
    assert convert(MEMBER, VPSieNode).spec.instance_id_to_write("99") == 99
    assert convert({**MEMBER, "spec": {"nodeGroupName": "workers"}}, VPSieNode).spec.instance_id_to_write("99") == "99"


def state(group: dict[str, Any] = GROUP, member: dict[str, Any] = MEMBER) -> GroupState:
    one = convert(member, VPSieNode)
    members = GroupMembers(ordered=(one,), remaining=(one,), names=(one.name,), last_number=0)
    return GroupState(convert(group, NodeGroup), members)


def test_status_nodes_keep_the_form_of_the_installed_schema() -> None:
    wanted, had = status_nodes(state())
    assert wanted == [{"nodeName": "worker-0", "vpsID": 41, "instanceType": "7", "status": "Ready"}]
    assert wanted == had, "the list is right: what the other operator wrote is left alone"
    empty = {**GROUP, "status": {**GROUP["status"], "nodes": []}}
    wanted, had = status_nodes(state(empty))
    assert (len(wanted), had) == (1, [])
    ours = {**MEMBER, "spec": {**MEMBER["spec"], "vpsieInstanceID": "41"}}
    assert status_nodes(state(empty, ours)) == (["workers-0"], [])


def test_a_new_node_has_the_integer_id_that_the_schema_requires() -> None:
    orders = ScaleUpOrders(orders={"default/workers": GroupOrder(2, ("7",))})
    (creation,) = orders.creations(state(), "plimsoll-system")
    assert creation.body["spec"]["vpsieInstanceID"] == 0
    assert creation.body["spec"]["kubernetesVersion"] == "v1.36.3"
    ours = {**MEMBER, "spec": {**MEMBER["spec"], "vpsieInstanceID": "41"}}
    names = {**GROUP, "status": {"nodes": ["workers-0"]}}
    (creation,) = orders.creations(state(names, ours), "plimsoll-system")
    assert "vpsieInstanceID" not in creation.body["spec"]


@pytest.mark.skipif(not PEERS.is_dir(), reason="the deployed schemas are not at hand")
@pytest.mark.parametrize(("file", "body"), [("crd-nodegroups.yaml", GROUP), ("crd-vpsienodes.yaml", MEMBER)])
def test_the_fixtures_agree_with_the_deployed_schemas(file: str, body: dict[str, Any]) -> None:
    (version,) = yaml.safe_load((PEERS / file).read_text())["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    for part in ("spec", "status"):
        assert set(schema[part].get("required", ())) <= set(body[part])
        kinds = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
        for name, value in body[part].items():
            assert isinstance(value, kinds[schema[part]["properties"][name]["type"]]), name
    if "nodes" in body["status"]:
        assert set(schema["status"]["properties"]["nodes"]["items"]["required"]) <= set(body["status"]["nodes"][0])
