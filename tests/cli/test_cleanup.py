"""What `plimsoll cleanup` takes for a leftover, and what it leaves alone; the command itself is tried in tests/migrating."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from plimsoll.cli.cleanup import is_held, on_members, on_nodes, on_pods
from plimsoll.controllers.deletion_cost.values import COST, VALUE_RECORD
from plimsoll.controllers.nodegroups.types import FINALIZER, VPSieNode
from plimsoll.controllers.placement.annotations import CLASS, PLACED_BY
from plimsoll.kube.codec import convert
from plimsoll.kube.types.coordination import Lease
from plimsoll.kube.types.core import Node, Pod

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def pod(**annotations: str) -> Pod:
    return convert({"metadata": {"name": "p", "namespace": "n", "annotations": annotations}}, Pod)


def test_values_with_our_mark_go_and_those_of_others_stay():
    ours = {COST: "7", VALUE_RECORD: '{"cost":7,"type":"zone","spreadBy":"zone"}'}
    (found,) = on_pods([pod(**ours), pod(**{COST: "7"}), pod()])
    assert found.patch == {"metadata": {"annotations": {VALUE_RECORD: None, COST: None}}}
    (changed,) = on_pods([pod(**{**ours, COST: "8"})])
    assert changed.patch == {"metadata": {"annotations": {VALUE_RECORD: None}}}, "someone has made the value his own"


def test_the_annotations_of_a_class_go():
    (found,) = on_pods([pod(**{CLASS: "spot", PLACED_BY: "plimsoll-system", "team": "shop"})])
    assert found.patch == {"metadata": {"annotations": {CLASS: None, PLACED_BY: None}}}
    assert str(found) == f"Pod/n/p: annotations {CLASS}, {PLACED_BY}"


def test_a_pod_that_is_unschedulable_with_our_class_is_evicted_and_not_only_stripped():
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    meta = {"name": "p", "namespace": "n", "annotations": {CLASS: "spot"}}
    stranded = convert({"metadata": meta, "status": {"phase": "Pending", "conditions": [waiting]}}, Pod)
    (found,) = on_pods([stranded])
    assert (found.patch, str(found)) == (None, "Pod/n/p: unschedulable with the class spot, evicted")


def test_our_taint_goes_and_people_s_stay():
    ours = {"key": "plimsoll.dev/leaving", "effect": "NoSchedule"}
    theirs = {"key": "gpu", "value": "yes", "effect": "NoExecute"}
    both = convert({"metadata": {"name": "a"}, "spec": {"taints": [ours, theirs]}}, Node)
    alone = convert({"metadata": {"name": "b"}, "spec": {"taints": [ours]}}, Node)
    other = convert({"metadata": {"name": "c"}, "spec": {"taints": [theirs]}}, Node)
    first, second = on_nodes([both, alone, other])
    assert first.patch == {"spec": {"taints": [theirs]}}
    assert second.patch == {"spec": {"taints": None}}


def test_a_member_that_is_being_deleted_keeps_its_finalizer():
    def member(**meta: object) -> VPSieNode:
        return convert(
            {"metadata": {"name": "m", "namespace": "n", "finalizers": ["theirs", FINALIZER], **meta}}, VPSieNode
        )

    (found,) = on_members([member(), member(deletionTimestamp=NOW.isoformat())])
    assert found.patch == {"metadata": {"finalizers": ["theirs"]}}


def test_who_leads_is_known_by_a_lease_that_is_renewed():
    def lease(holder: str, seconds_ago: int) -> Lease:
        renewed = (NOW - timedelta(seconds=seconds_ago)).isoformat()
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
        return convert({"metadata": {"name": "l"}, "spec": spec}, Lease)

    assert is_held(lease("a", 3), NOW)
    assert not is_held(lease("a", 16), NOW), "it has run out"
    assert not is_held(lease("", 3), NOW), "it was given back"
    assert not is_held(convert({"metadata": {"name": "l"}}, Lease), NOW)
