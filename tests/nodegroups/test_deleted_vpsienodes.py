"""A VPSieNode that someone deletes goes; but no eviction breaks what another controller promises of its workloads."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from plimsoll.config import Config, Controllers
from plimsoll.controllers.build import controllers
from plimsoll.controllers.nodegroups.controller import NodeGroupController
from plimsoll.controllers.nodegroups.lifecycle.lifecycle import NodeDecision
from plimsoll.controllers.nodegroups.patches import DRAIN_TAINT
from plimsoll.controllers.nodegroups.scale_down.drain import CHECKED
from plimsoll.controllers.nodegroups.types import FINALIZER, VPSIE_NODE, VPSIE_NODES, VPSieNode
from plimsoll.kube.cache.store import View
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import NodeSpec, Taint
from plimsoll.kube.types.resources import DEPLOYMENTS, NODES, PODS, REPLICASETS, Resource
from plimsoll.runtime.decision import Evict
from tests import build

NOW = build.START + timedelta(hours=1)
ASKED = {"spotalis.io/enabled": "true", "spotalis.io/min-on-demand": "2", "spotalis.io/spot-percentage": "50%"}
TAINT = Taint(key=DRAIN_TAINT, effect="NoSchedule", time_added=build.START)


def decision(*places: str, deleted: bool = True) -> NodeDecision:
    """About the VPSieNode of node n1, deleted by someone or else chosen by us, with replicas of a workload at these places."""
    running = controllers(Config(controllers=Controllers(enabled=("nodegroups", "placement"))))
    (groups,) = (one for one in running if isinstance(one, NodeGroupController))
    web = build.deployment("web", replicas=len(places), annotations=ASKED)
    version = build.replica_set("web-1", replicas=len(places), owner=web)
    going = replace(build.node("n1", labels={VPSIE_NODE: "n1"}), spec=NodeSpec(taints=(TAINT,)))
    meta = build.metadata("n1", finalizers=[FINALIZER])
    chosen = {"type": "Draining", "status": "True", "reason": CHECKED, "message": "it is little used"}
    status = {"phase": "Terminating", "conditions": [] if deleted else [chosen]}
    meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    member = convert({"metadata": meta, "status": status}, VPSieNode)
    objects: dict[Resource[Any], Any] = dict.fromkeys(groups.watches, ())
    objects |= {
        DEPLOYMENTS: [web],
        REPLICASETS: [version],
        NODES: [going, build.node("n2"), build.node("spot", labels={"karpenter.sh/capacity-type": "spot"})],
        PODS: [build.pod(owner=version, node=place) for place in places],
        VPSIE_NODES: [member],
    }
    found = groups.decide(VPSIE_NODES.key(member), View.of(objects), NOW)
    assert isinstance(found, NodeDecision)
    return found


def evicted(found: NodeDecision) -> int:
    return sum(isinstance(action, Evict) for action in found.actions)


def test_pods_that_a_workload_can_spare_leave() -> None:
    found = decision("n1", "n1", "n2", "n2", "spot")
    assert evicted(found) == 2
    assert not found.blockers


def test_no_more_of_them_than_it_can_spare() -> None:
    found = decision("n1", "n1", "n2", "spot")
    assert evicted(found) == 1, "two of three on-demand replicas must stay"
    assert [blocker.code for blocker in found.blockers] == ["MinimumOnDemand"]
    assert found.requeue_after is not None


def test_where_none_can_be_spared_it_is_said_loudly() -> None:
    found = decision("n1", "n2", "spot")
    assert evicted(found) == 0
    assert found.reason.code == "MinimumOnDemand"
    (event,) = found.events
    assert (event.reason, event.type, event.regarding.name) == ("ScaleDownBlocked", "Warning", "n1")
    assert "the minimum is 2" in event.message
    assert event.counts


def test_in_a_drain_of_our_own_the_others_wait_in_silence() -> None:
    found = decision("n1", "n1", "n2", "spot", deleted=False)
    assert evicted(found) == 1, "the second follows once the first is ready elsewhere"
    assert [blocker.code for blocker in found.blockers] == ["MinimumOnDemand"]
    assert not found.events
