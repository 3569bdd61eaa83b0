"""A place for the replacement that is not there yet: a node group makes it, if it can, and says so; else nobody is moved."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from plimsoll.config import Config, Controllers, Webhook
from plimsoll.controllers.build import controllers
from plimsoll.controllers.deletion_cost.algorithms.registry import Algorithms
from plimsoll.controllers.deletion_cost.controller import DeletionCostController
from plimsoll.controllers.deletion_cost.spec import DeletionCostSettings
from plimsoll.controllers.nodegroups.controller import NodeGroupController
from plimsoll.controllers.nodegroups.provider_inventory import ProviderInventories, ProviderInventory
from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.controllers.nodegroups.types import NODE_GROUPS, VPSIE_NODES, NodeGroup, VPSieNode
from plimsoll.controllers.placement.controller import PlacementController, PlacementDecision, PlacementState
from plimsoll.explain.records import WorkloadExplanation
from plimsoll.explain.targets import Explainer
from plimsoll.explain.workloads import explain_workload
from plimsoll.kube.cache.store import View
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.quantity import parse_quantity
from plimsoll.kube.types.resources import DAEMONSETS, NODES, PODS
from plimsoll.providers.protocol import Offering
from tests import build
from tests.build import START
from tests.nodegroups.cloud import SMALL
from tests.placement.scene import SPOT_LABEL, Scene, codes, evicted, on_demand_node, spot_node, stamp, stores
from tests.placement.test_reservations import Pair

MINUTE = timedelta(minutes=1)


def group(name: str = "spot", **spec: Any) -> NodeGroup:
    """Of nodes that hold two pods of 900m."""
    status = spec.pop("status", {})
    basic = {
        "minNodes": 0, "maxNodes": 5, "datacenterID": "dc-1", "offeringIDs": ["small"], "provider": "cloud",
        "labels": SPOT_LABEL, **spec,
    }  # fmt: skip
    return convert({"metadata": build.metadata(name), "spec": basic, "status": status}, NodeGroup)


def node_groups(*, asked: bool = True) -> NodeGroupController:
    inventories = ProviderInventories()
    if asked:
        inventories.record("cloud", ProviderInventory.of(START, offerings={"dc-1": (SMALL,)}))
    return NodeGroupController(NodeGroupSettings(), inventories)


def scene(*groups: NodeGroup, asked: bool = True, at_hand: int = 0, cpu: str = "900m") -> Scene:
    """Four replicas on-demand of which two should be on spot, where so many places are free."""
    template = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
    made = Scene(replicas=4, spot="50%", minimum="0", template=template)
    made.objects[NODES][:] = [on_demand_node(), spot_node(pods=at_hand)]
    made.objects |= {NODE_GROUPS: list(groups), VPSIE_NODES: [], DAEMONSETS: []}
    made.controller = PlacementController(made.settings, PlacementState(made.settings, node_groups(asked=asked)))
    made.running(spot=0, on_demand=4)
    return made


def why_not(decision: PlacementDecision) -> str:
    assert codes(decision) == ["NoPlaceToMovePods"]
    return decision.blockers[0].message


def test_a_group_that_can_grow_is_a_place_and_is_named():
    decision = scene(group()).decide()
    assert len(evicted(decision)) == 1
    assert decision.reason.message.endswith("; no spot node has room, and node group default/spot adds a node")


def test_a_node_that_is_there_needs_no_group():
    decision = scene(group(), at_hand=1).decide()
    assert len(evicted(decision)) == 1
    assert "node group" not in decision.reason.message


def test_without_a_maker_of_nodes_nobody_moves():
    made = scene(group())
    made.controller = PlacementController(made.settings)
    assert "fits on no spot node" in why_not(made.decide())


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"maxNodes": 0}, "group default/spot has its maximum of 0 nodes"),
        ({"labels": {}}, "a node of group default/spot would not fit it"),
        ({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, "a node of group default/spot would not fit it"),
        ({"scaleUpPolicy": {"enabled": False}}, "group default/spot is not scaled up: scaleUpPolicy.enabled is false"),
        ({"offeringIDs": ["huge"]}, "group default/spot: none of its offerings (huge)"),
        ({"provider": "elsewhere"}, "group default/spot: provider elsewhere cannot be used: it was not polled yet"),
    ],
)
def test_a_group_that_cannot_bring_the_node_is_no_place(changed: dict[str, Any], why: str):
    assert f"; {why}" in why_not(scene(group(**changed)).decide())


def test_a_pod_larger_than_the_offering_has_no_place():
    assert why_not(scene(group(), cpu="3").decide()).endswith("; a node of group default/spot would not fit it")


def test_a_group_that_rests_after_failures_is_a_place_only_afterwards():
    backoff = {"offering": "", "reason": "QuotaExceeded", "message": "no more", "failures": 2}
    until = {"lastFailure": stamp(START - MINUTE), "until": stamp(START + MINUTE)}
    made = scene(group(status={"setbacks": [{**backoff, **until}]}))
    assert why_not(made.decide()).endswith("; group default/spot is in back-off after 2 failures: no more")
    assert len(evicted(made.decide(after=MINUTE))) == 1


def test_an_old_answer_of_the_provider_is_not_relied_on():
    made = scene(group())
    assert len(evicted(made.decide(after=timedelta(seconds=59)))) == 1
    assert "cannot be used" in why_not(made.decide(after=timedelta(seconds=61)))


def test_a_group_that_is_full_is_no_place_and_its_node_that_is_coming_is_one():
    member = {"metadata": build.metadata("spot-1"), "spec": {"nodeGroupName": "spot", "provider": "cloud",
              "datacenterID": "dc-1", "instanceType": "small"}, "status": {"phase": "Provisioning"}}  # fmt: skip
    made = scene(group(maxNodes=1))
    made.objects[VPSIE_NODES] = [convert(member, VPSieNode)]
    made.objects[NODES][:] = [on_demand_node()]
    decision = made.decide()
    assert len(evicted(decision)) == 1
    assert decision.reason.message.endswith("; no spot node has room, and node spot-1 is coming")
    made.objects[VPSIE_NODES] = [convert({**member, "status": {"phase": "Terminating"}}, VPSieNode)]
    made.objects[NODE_GROUPS] = [group(maxNodes=0)]
    assert "its maximum of 0 nodes" in why_not(made.decide())


def test_a_node_that_has_joined_and_is_not_ready_is_still_coming_and_is_counted_once():
    made = scene(group(maxNodes=1))
    made.objects[VPSIE_NODES] = [
        convert({"metadata": build.metadata("spot-1"), "spec": {"nodeGroupName": "spot", "provider": "cloud",
                 "datacenterID": "dc-1", "instanceType": "small"}, "status": {"phase": "Joining"}}, VPSieNode)
    ]  # fmt: skip
    made.objects[NODES][:] = [on_demand_node(), spot_node("spot-1", taint="node.kubernetes.io/not-ready", pods=1)]
    waiting = [{"name": "main", "resources": {"requests": {"cpu": "1500m"}}}]
    decision = made.decide()
    assert decision.reason.message.endswith("; no spot node has room, and node spot-1 is coming")
    body = {
        "metadata": build.metadata("first"),
        "spec": {"containers": waiting, "nodeSelector": SPOT_LABEL},
        "status": {"phase": "Pending"},
    }
    made.objects[PODS].append(convert(body, Pod))
    why_not(made.decide())


def test_the_node_of_the_minimum_comes_in_any_case_and_is_a_place():
    decision = scene(group(minNodes=1, maxNodes=1)).decide()
    assert len(evicted(decision)) == 1
    assert decision.reason.message.endswith("is coming")


def test_who_waits_already_comes_first():
    """One node more can be had, and a pod that waits for spot fills it."""
    made = scene(group(maxNodes=1))
    needs = [{"name": "main", "resources": {"requests": {"cpu": "1500m"}}}]
    body = {
        "metadata": build.metadata("first"),
        "spec": {"containers": needs, "nodeSelector": SPOT_LABEL},
        "status": {"phase": "Pending"},
    }
    made.objects[PODS].append(convert(body, Pod))
    why_not(made.decide())
    made.objects[NODE_GROUPS] = [group(maxNodes=2)]
    assert len(evicted(made.decide())) == 1


def test_two_workloads_do_not_count_on_the_same_growth():
    pair = Pair(free=0)
    pair.stores |= stores({NODE_GROUPS: (), VPSIE_NODES: (), DAEMONSETS: ()})
    pair.view = View(pair.stores)
    tiny = Offering("tiny", capacity={**SMALL.capacity, "pods": parse_quantity("1")})
    pair.stores[NODE_GROUPS].put(group(maxNodes=1, offeringIDs=["tiny"]))
    maker = node_groups()
    maker.inventories.record("cloud", ProviderInventory.of(START, offerings={"dc-1": (tiny,)}))
    pair.controller = PlacementController(pair.settings, PlacementState(pair.settings, maker))
    (first,) = evicted(pair.decide("a"))
    assert codes(pair.decide("b")) == ["NoPlaceToMovePods"]
    pair.leave(first)
    assert codes(pair.decide("b")) == ["NoPlaceToMovePods"], "not replaced yet"
    pair.replace_by("next", "a")
    assert codes(pair.decide("b")) == ["NoPlaceToMovePods"], "it waits for its node"
    pair.stores[NODE_GROUPS].put(group(maxNodes=2, offeringIDs=["tiny"]))
    assert len(evicted(pair.decide("b"))) == 1


def test_explain_says_which_group_would_grow():
    made = scene(group())
    settings = made.settings
    cost = DeletionCostController(DeletionCostSettings(), Algorithms({}, {}))
    answer = explain_workload(
        made.key, made.view(), made.now, placement=made.controller, settings=settings, deletion_cost=cost
    )
    assert any("node group default/spot adds a node" in step for step in answer.steps)


@pytest.mark.parametrize(("enabled", "told"), [(("placement", "nodegroups"), True), (("placement",), False)])
def test_explain_from_outside_names_the_group_where_groups_are_looked_after(enabled: tuple[Any, ...], told: bool):
    """A provider is asked by the running operator alone: whether the group can grow is not known here."""
    made = scene(group())
    explainer = Explainer(Config(controllers=Controllers(enabled=enabled), webhook=Webhook(mode="url")))
    for kind in explainer.watches:
        made.objects.setdefault(kind, [])
    view = made.view()
    answer = explainer.explain(made.key, view, made.now)
    assert isinstance(answer, WorkloadExplanation)
    message = next(blocker.message for blocker in answer.blockers if blocker.code == "NoPlaceToMovePods")
    assert ("group default/spot: provider cloud cannot be used" in message) is told


def test_the_operator_hands_its_node_groups_to_placement():
    both = Controllers(enabled=("placement", "nodegroups"))
    placing, grouping = controllers(Config(controllers=both, webhook=Webhook(mode="url")))
    assert isinstance(grouping, NodeGroupController)
    assert isinstance(placing, PlacementController)
    made = scene(group())
    made.controller = placing
    assert "provider cloud cannot be used" in why_not(made.decide())
    grouping.inventories.record("cloud", ProviderInventory.of(START, offerings={"dc-1": (SMALL,)}))
    assert len(evicted(made.decide())) == 1
