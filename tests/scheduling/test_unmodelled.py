"""Pods with requirements that kube-scheduler enforces and the engine does not model: they are refused, with the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plimsoll.kube.cache.list_reader import Page
from plimsoll.kube.cache.watch import Event
from plimsoll.kube.codec import decode
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.pod_fields import KNOWN_POD_SPEC_FIELDS, NOT_MODELLED_FIELDS
from plimsoll.scheduling.fits import fits
from plimsoll.scheduling.model import EXISTING, Constraint, Template
from plimsoll.scheduling.pack import pack
from plimsoll.scheduling.removal import removable
from tests.scheduling import menus
from tests.scheduling.cases import Case, node, offering, pod
from tools.controlplane.cluster import ControlPlane

NODES = (node("here"), node("there"))
TEMPLATE = Template("t", (offering("o", menus.CAPACITIES[0], 1.0),))
CONTAINER = {"name": "main", "restartPolicyRules": [{"action": "RestartAllContainers"}]}
UNMODELLED: list[tuple[str, dict[str, Any], Constraint, str]] = [
    ("claim", {"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]}, Constraint.DEVICE_CLAIM, "(mine)"),
    (
        "claim template",
        {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "any"}]},
        Constraint.DEVICE_CLAIM,
        "(gpu)",
    ),
    ("gang", {"schedulingGroup": {"podGroupName": "g"}}, Constraint.UNKNOWN_CONSTRAINT, "spec.schedulingGroup"),
    ("gang of 1.35", {"workloadRef": {"name": "w"}}, Constraint.UNKNOWN_CONSTRAINT, "spec.workloadRef"),
    ("future field", {"nodeQuality": "good"}, Constraint.UNKNOWN_CONSTRAINT, "spec.nodeQuality"),
    (
        "user namespace with host network",
        {"hostNetwork": True, "hostUsers": False},
        Constraint.UNKNOWN_CONSTRAINT,
        "spec.hostUsers",
    ),
    ("restart of all containers", {"containers": [CONTAINER]}, Constraint.UNKNOWN_CONSTRAINT, "restartPolicyRules"),
]


@pytest.mark.parametrize(("spec", "constraint", "says"), [u[1:] for u in UNMODELLED], ids=[u[0] for u in UNMODELLED])
def test_no_node_is_called_feasible(spec: dict[str, Any], constraint: Constraint, says: str) -> None:
    asking = pod("p", {"spec": spec})
    snapshot = Case(nodes=NODES).snapshot()
    reason = fits(snapshot, asking, "here")
    assert reason is not None and reason.rule is constraint and says in reason.message
    packing = pack(snapshot, [asking, pod("plain")], [TEMPLATE])
    assert list(packing.placements) == ["uid-plain"], "other pods are placed all the same"
    assert set(packing.unplaced["uid-p"]) == {EXISTING, "t"}
    assert all(why.rule is constraint and says in why.message for why in packing.unplaced["uid-p"].values())


@pytest.mark.parametrize(("spec", "constraint", "says"), [u[1:] for u in UNMODELLED], ids=[u[0] for u in UNMODELLED])
def test_a_node_with_such_a_pod_is_not_removable(spec: dict[str, Any], constraint: Constraint, says: str) -> None:
    case = Case(nodes=NODES, bound=(pod("p", {"spec": spec}, node="here"), pod("plain", node="there")))
    here, there = removable(case.snapshot(), ["here", "there"])
    assert here.reason is not None and here.reason.rule is constraint and says in here.reason.message
    assert there.plan == {"uid-plain": "here"}


def test_pods_with_and_without_are_told_apart() -> None:
    """Equal in everything that most pods differ in: the one must not hide behind the other."""
    for _, spec, _, _ in UNMODELLED:
        plain = {key: value for key, value in spec.items() if key == "hostNetwork"}
        packing = pack(Case(nodes=NODES).snapshot(), [pod("a", {"spec": plain}), pod("b", {"spec": spec})])
        assert list(packing.placements) == ["uid-a"], spec


# ── fields of a newer Kubernetes ─────────────────────────────────────────────────────────────────────────────────────


def manifest(name: str, owner: str = "", **spec: Any) -> dict[str, Any]:
    owners = [{"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}] if owner else []
    return {"metadata": {"name": name, "ownerReferences": owners}, "spec": {"containers": [], **spec}}


def test_unknown_fields_are_noticed_however_a_pod_arrives() -> None:
    new = manifest("p", nodeQuality="good", dnsPolicy="Default")
    alone = decode(json.dumps(new).encode(), Pod)
    event = decode(json.dumps({"type": "ADDED", "object": new}).encode(), Event[Pod]).object
    page = decode(json.dumps({"items": [manifest("q"), new]}).encode(), Page[Pod]).items
    assert page is not None
    assert [p.spec.unknown_fields for p in (alone, event, *page)] == [
        ("nodeQuality",),
        ("nodeQuality",),
        (),
        ("nodeQuality",),
    ]


def test_every_pod_of_a_controller_with_unknown_fields_is_noticed() -> None:
    """Only controllers whose pods have known fields alone are remembered."""
    for name in ("first", "second"):
        found = decode(json.dumps(manifest(name, owner="odd", nodeQuality="good")).encode(), Pod)
        assert found.spec.unknown_fields == ("nodeQuality",)


OF_OLDER_VERSIONS = {"workloadRef"}  # in 1.35 and 1.36


@pytest.mark.real
def test_the_known_fields_are_those_of_the_newest_version(control_plane: ControlPlane) -> None:
    schemas = control_plane.request("GET", "/openapi/v3/api/v1")["components"]["schemas"]
    assert (
        set(schemas["io.k8s.api.core.v1.PodSpec"]["properties"]) | OF_OLDER_VERSIONS
        == KNOWN_POD_SPEC_FIELDS | NOT_MODELLED_FIELDS
    )
    for kind, known in NESTED.items():
        assert set(schemas[f"io.k8s.api.core.v1.{kind}"]["properties"]) == set(known.split()), kind


# What the engine reads or refuses of the parts of a pod that constrain scheduling. A new field here means: look whether
# kube-scheduler enforces it.
NESTED = {
    "Affinity": "nodeAffinity podAffinity podAntiAffinity",
    "NodeSelectorTerm": "matchExpressions matchFields",
    "NodeSelectorRequirement": "key operator values",
    "PodAffinityTerm": "labelSelector matchLabelKeys mismatchLabelKeys namespaceSelector namespaces topologyKey",
    "Toleration": "effect key operator tolerationSeconds value",
    "TopologySpreadConstraint": "labelSelector matchLabelKeys maxSkew minDomains nodeAffinityPolicy nodeTaintsPolicy"
    " topologyKey whenUnsatisfiable",
    "ResourceRequirements": "claims limits requests",
    "PodResourceClaim": "name resourceClaimName resourceClaimTemplateName",
    "PodSchedulingGate": "name",
    "PodSchedulingGroup": "podGroupName",
    "ContainerPort": "containerPort hostIP hostPort name protocol",
    "PersistentVolumeClaimVolumeSource": "claimName readOnly",
}
