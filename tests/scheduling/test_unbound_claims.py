"""Claims without a volume: where one is about to be made, where there is none to come, and what nobody can know yet."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.kube.codec import convert
from plimsoll.kube.types.storage import PersistentVolumeClaim, StorageClass
from plimsoll.scheduling.fits import fits
from plimsoll.scheduling.model import Constraint, Template
from plimsoll.scheduling.pack import pack
from tests.scheduling import menus
from tests.scheduling.cases import Case, node, offering, pod

NODES = (node("here"), node("there"))
TEMPLATE = Template("t", (offering("o", menus.CAPACITIES[0], 1.0),))
POD = pod("p", {"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}})


def case(metadata: dict[str, Any], volume: str = "") -> Case:
    claim = {"metadata": {"name": "data", "namespace": "blue", **metadata}, "spec": {"volumeName": volume}}
    return Case(nodes=NODES, pending=(POD,), templates=(TEMPLATE,), claims=(convert(claim, PersistentVolumeClaim),))


def test_the_pod_goes_where_its_volume_is_about_to_be_made() -> None:
    question = case({"annotations": {"volume.kubernetes.io/selected-node": "there"}})
    assert pack(question.snapshot(), [POD], [TEMPLATE]).placements == {POD.uid: "there"}
    refusal = fits(question.snapshot(), POD, "here")
    assert refusal is not None and refusal.rule is Constraint.VOLUME


@pytest.mark.parametrize(
    ("metadata", "volume", "says"),
    [
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "", "is being deleted"),
        ({}, "lost", "bound to lost, which does not exist"),
    ],
    ids=["claim leaves", "volume is gone"],
)
def test_no_node_will_do(metadata: dict[str, Any], volume: str, says: str) -> None:
    packing = pack(case(metadata, volume).snapshot(), [POD], [TEMPLATE])
    assert not packing.placements
    assert all(why.rule is Constraint.VOLUME and says in why.message for why in packing.unplaced[POD.uid].values())


def test_what_is_not_known_holds_nobody_back_and_is_told() -> None:
    packing = pack(case({}).snapshot(), [POD], [TEMPLATE])
    assert list(packing.placements) == [POD.uid]
    assert packing.notes == {POD.uid: "claim data is not bound yet"}


# ── storage classes ──────────────────────────────────────────────────────────────────────────────────────────────────


def storage_class(**more: Any) -> StorageClass:
    body = {"metadata": {"name": "fast"}, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer", **more}
    return convert(body, StorageClass)


def with_class(found: StorageClass | None) -> Case:
    claim = {"metadata": {"name": "data", "namespace": "blue"}, "spec": {"storageClassName": "fast"}}
    return Case(
        nodes=(node("one", zone="z1"), node("two", zone="z2")),
        pending=(POD,),
        claims=(convert(claim, PersistentVolumeClaim),),
        storage_classes=(found,) if found is not None else (storage_class(metadata={"name": "other"}),),
    )


def test_a_volume_is_created_only_where_its_class_allows() -> None:
    zones = [{"matchLabelExpressions": [{"key": menus.ZONE, "values": ["z2", "z3"]}]}]
    question = with_class(storage_class(allowedTopologies=zones))
    assert pack(question.snapshot(), [POD]).placements == {POD.uid: "two"}
    reason = fits(question.snapshot(), POD, "one")
    assert reason is not None and reason.rule is Constraint.VOLUME
    template = Template("t", (offering("o", menus.CAPACITIES[0], 1.0, labels={menus.ZONE: "z1"}),))
    nowhere = Case(claims=question.claims, storage_classes=question.storage_classes)
    assert pack(nowhere.snapshot(), [POD], [template]).unplaced[POD.uid]["t"].rule is Constraint.VOLUME


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (storage_class(volumeBindingMode="Immediate"), "binds claims before pods are scheduled"),
        (storage_class(provisioner="kubernetes.io/no-provisioner"), "creates no volumes"),
        (None, 'storage class "fast" does not exist'),
    ],
    ids=["immediate", "local volumes", "no such class"],
)
def test_an_unbound_claim_that_cannot_wait_for_its_pod(found: StorageClass | None, says: str) -> None:
    reason = fits(with_class(found).snapshot(), POD, "one")
    assert reason is not None and reason.rule is Constraint.VOLUME and says in reason.message
