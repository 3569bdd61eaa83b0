"""One small workload, and everyone who asks whether one of its pods may be evicted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from plimsoll.controllers.nodegroups.group_state import DecisionContext, group_state
from plimsoll.controllers.nodegroups.provider_inventory import ProviderInventories
from plimsoll.controllers.nodegroups.scale_down.checks.check import CheckContext, RemovalCandidate
from plimsoll.controllers.nodegroups.scale_down.checks.pods import budgets, opt_outs, replicated
from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.controllers.nodegroups.types import NODE_GROUPS, VPSIE_NODES, NodeGroup, VPSieNode
from plimsoll.controllers.placement.rebalance.candidates import moves
from plimsoll.controllers.placement.rebalance.interruption import plan_interruption
from plimsoll.controllers.placement.rebalance.move_checks import Move, blockers
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.controllers.placement.workload import Managed, evaluate_workload
from plimsoll.controllers.placement.workload_state import WorkloadState
from plimsoll.disruption.ledger import DisruptionLedger
from plimsoll.disruption.opt_out import pod_opt_out
from plimsoll.kube.cache.store import View
from plimsoll.kube.codec import convert
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.policy import PodDisruptionBudget
from plimsoll.kube.types.resources import PODS
from plimsoll.runtime.decision import DisruptionLimits
from tests import build
from tests.build import START
from tests.placement.scene import ON_DEMAND, Scene, on_demand_node

# What each caller may answer about the rulebook; other blockers (windows, cooldowns, …) are its own affair.
RULES = frozenset(
    {"NotEnoughPdb", "SeveralBudgets", "BudgetNotCounted", "BudgetBusy", "LastReady", "NotSafeToEvictAnnotation"}
)
NODE = "od-1"


class Scenario(Struct, frozen=True):
    """A Deployment of three on-demand replicas that wants two of them on spot. The first, alone on its node, is judged."""

    title: str
    expected: str  # the code of the blocker; empty: the pod may be evicted
    ready: tuple[bool, bool, bool] = (True, True, True)
    phase: str = "Running"
    annotations: Mapping[str, str] = field(default_factory=dict)
    started: timedelta = timedelta(hours=1)  # ago
    budgets: tuple[PodDisruptionBudget, ...] = ()

    def scene(self, *, interrupted: bool = False) -> Scene:
        scene = Scene(replicas=3, spot="67%", minimum="0")
        scene.add(on_demand_node("od-2"))
        if interrupted:
            scene.add(on_demand_node(NODE, taint="aws-node-termination-handler/spot-itn"))
        for number, ready in enumerate(self.ready):
            first = number == 0
            made = scene.pod(
                f"web-{number}", node=NODE if first else "od-2", mark=ON_DEMAND, ready=ready,
                annotations=dict(self.annotations) if first else {}, phase=self.phase if first else "Running",
            )  # fmt: skip
            scene.add(replace(made, status=replace(made.status, start_time=START - self.started)))
        scene.add(*self.budgets)
        return scene


def _pod(view: View) -> Pod:
    found = view[PODS].get("default", "web-0")
    assert found is not None
    return found


def actuator(scenario: Scenario) -> set[str]:
    """The actuator, right before it sends the eviction. Opt-outs are for those who choose pods: not asked here."""
    scene = scenario.scene()
    ledger = DisruptionLedger(DisruptionLimits(100, 100, timedelta(hours=1)))
    ledger.recall(())
    pod = _pod(scene.view())
    blocker = ledger.refusal(pod, scene.view(), 0.0, workload=scene.key)
    opted_out = pod_opt_out(pod, START)
    return {one.code for one in (blocker, opted_out) if one is not None}


def rebalance(scenario: Scenario) -> set[str]:
    """Placement, when it chooses replicas to move and judges the move of this one."""
    state = _state(scenario.scene())
    (replica,) = (one for one in state.replicas if one.pod.name == "web-0")
    found = {blocker.code for blocker in blockers(state, Move(replica, CapacityClass.SPOT))}
    if scenario.annotations and "web-0" not in {move.replica.pod.name for move in moves(state)}:
        found.add("NotSafeToEvictAnnotation")
    return found


def interruption(scenario: Scenario) -> set[str]:
    """Placement, when the pod's node is about to be reclaimed."""
    state = _state(scenario.scene(interrupted=True))
    plan = plan_interruption(state)
    if "web-0" in {eviction.pod.name for eviction in plan.evictions}:
        return set()
    return {blocker.code for blocker in plan.blockers} or {"NotSafeToEvictAnnotation"}  # passed over without a word


def node_removal(scenario: Scenario) -> set[str]:
    """Node groups, when the node of the pod might be removed."""
    scene = scenario.scene()
    group = convert({"metadata": build.metadata("workers"), "spec": {"minNodes": 0, "maxNodes": 3}}, NodeGroup)
    member = convert({"metadata": build.metadata("workers-1"), "spec": {"nodeGroupName": "workers"}}, VPSieNode)
    view = View.of({**scene.objects, NODE_GROUPS: [group], VPSIE_NODES: [member]})
    context = DecisionContext(view, START, NodeGroupSettings(), ProviderInventories())
    candidate = RemovalCandidate(member, build.node(NODE), group_state(group, context), lambda: (_pod(view),))
    checks = (opt_outs, replicated, budgets)
    return {found.code for check in checks if (found := check(candidate, CheckContext(context))) is not None}


def _state(scene: Scene) -> WorkloadState:
    managed = evaluate_workload(scene.workload, scene.settings)
    assert isinstance(managed, Managed)
    return WorkloadState(managed, scene.view(), START, scene.settings)


CALLERS: Mapping[str, Callable[[Scenario], set[str]]] = {
    "actuator": actuator,
    "rebalance": rebalance,
    "interruption": interruption,
    "node removal": node_removal,
}


def budget(name: str = "pdb", **fields: Any) -> PodDisruptionBudget:
    return build.budget(name, selector={"matchLabels": {"app": "web"}}, **fields)
