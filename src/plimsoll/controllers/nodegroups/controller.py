"""The node group controller: decides how many nodes each group has, and takes every VPSieNode through its life.

There are two kinds of keys. `CLUSTER` decides about all groups at once, because pending pods are packed once over all of them. The key
of a VPSieNode decides the next step of that one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

from plimsoll.controllers.nodegroups import report
from plimsoll.controllers.nodegroups.group_state import DecisionContext, GroupState, group_states
from plimsoll.controllers.nodegroups.lifecycle.lifecycle import NodeDecision, decide_lifecycle
from plimsoll.controllers.nodegroups.members import MembersCache
from plimsoll.controllers.nodegroups.node_template import NodeSizes
from plimsoll.controllers.nodegroups.other_installations import other_installation_problem
from plimsoll.controllers.nodegroups.patches import (
    DRAIN_TAINT,
    group_status,
    merge_conditions,
    node_status,
    status_time,
    untaint,
)
from plimsoll.controllers.nodegroups.planner import InlinePlanner, Planner
from plimsoll.controllers.nodegroups.provider_inventory import ProviderInventories
from plimsoll.controllers.nodegroups.report import GroupVerdict
from plimsoll.controllers.nodegroups.scale_down.checks.check import Check, RemovalCandidate
from plimsoll.controllers.nodegroups.scale_down.drain import CHOSEN, decide_drain
from plimsoll.controllers.nodegroups.scale_down.scale_down import (
    Ask,
    BlockedNode,
    CheckRounds,
    ScaleDownPlan,
    all_blockers,
    choose_nodes,
    low_use_nodes,
    next_candidate_at,
    removal_candidates,
)
from plimsoll.controllers.nodegroups.scale_down.utilization import (
    READ_NODE_METRICS,
    LowUseClocks,
    MeasuredUse,
    NodeUse,
    RequestedUse,
)
from plimsoll.controllers.nodegroups.scale_up.pending_pods import nominated, pending_pods
from plimsoll.controllers.nodegroups.scale_up.pod_events import PodEvents
from plimsoll.controllers.nodegroups.scale_up.scale_up import (
    ScaleUpOrders,
    ScaleUpPlan,
    growth_options,
    plan_scale_up,
    scale_up_plan,
    scale_up_question,
)
from plimsoll.controllers.nodegroups.scale_up.templates import daemon_pods
from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.controllers.nodegroups.spec import spec_problem
from plimsoll.controllers.nodegroups.types import (
    BY_GROUP,
    BY_MACHINE,
    BY_NODE_NAME,
    GROUP,
    NODE_GROUPS,
    VPSIE_NODE,
    VPSIE_NODES,
    NodeGroup,
    VPSieNode,
)
from plimsoll.disruption.opt_out import invalid_opt_outs
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.apps import DaemonSet
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.meta import Condition, KubeObject
from plimsoll.kube.types.policy import PodDisruptionBudget
from plimsoll.kube.types.resources import (
    BUDGETS,
    BY_TAINT,
    CLAIMS,
    CSI_NODES,
    DAEMONSETS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICASETS,
    STATEFULSETS,
    STORAGE_CLASSES,
    UNBOUND,
    VOLUMES,
    Key,
    Resource,
)
from plimsoll.runtime.decision import Action, Blocker, Decision, Patch, Permission, Problem, Reason, Ref
from plimsoll.scheduling.growth_options import GrowthOptions
from plimsoll.scheduling.snapshot_cache import SnapshotCache

CLUSTER = Key("NodeGroups", "", "all")
MAX_INTERVAL = timedelta(
    seconds=30
)  # between two decisions about the groups: a node that was busy in between is noticed
NEXT_ROUND = timedelta(seconds=1)  # when one decision could not check all candidates
COMPUTING_RETRY = timedelta(seconds=5)


class GroupsDecision(Decision, frozen=True, kw_only=True):
    """How many nodes each group has, and why."""

    verdicts: tuple[GroupVerdict, ...] = ()
    scale_up: ScaleUpPlan = ScaleUpPlan()
    blocked_nodes: tuple[BlockedNode, ...] = ()  # nodes that might be removed, and what keeps them


class NodeGroupState(Struct):
    """What the controller keeps between decisions. A restart loses it; decisions then only take longer."""

    members: MembersCache = field(default_factory=MembersCache)
    snapshots: SnapshotCache = field(default_factory=SnapshotCache)
    low_use: LowUseClocks = field(default_factory=LowUseClocks)
    rounds: CheckRounds = field(default_factory=CheckRounds)
    pod_events: PodEvents = field(default_factory=PodEvents)
    last: GroupsDecision | None = None  # repeated, without its actions, while the next one is being computed


class NodeGroupController:
    name: ClassVar[str] = "nodegroups"

    def __init__(
        self,
        settings: NodeGroupSettings,
        inventories: ProviderInventories,
        *,
        further_checks: Sequence[Check] = (),
        measured: MeasuredUse | None = None,
        planner: Planner | None = None,
        state: NodeGroupState | None = None,
    ) -> None:
        """
        further_checks: checks of other controllers that may keep a node.
        measured: measured use of nodes; None: requests of pods decide what is underutilized.
        planner: answers packing questions; by default while the decision runs.
        """
        self._settings = settings
        self.inventories = inventories
        self.measured = measured
        self._further_checks = tuple(further_checks)
        self.planner: Planner = planner or InlinePlanner()
        self.state = state or NodeGroupState()

    @property
    def permissions(self) -> tuple[Permission, ...]:
        needed = (
            Permission("", "pods", "get"),
            Permission("", "pods/eviction", "create"),
            *(Permission("", "nodes", verb) for verb in ("get", "patch", "delete")),
            *(Permission(GROUP, "vpsienodes", verb) for verb in ("create", "get", "patch", "delete")),
            Permission(GROUP, "nodegroups", "get"),
            *(Permission(GROUP, kind, "patch") for kind in ("vpsienodes/status", "nodegroups/status")),
        )
        return (*needed, READ_NODE_METRICS) if self.measured is not None else needed

    @property
    def watches(self) -> tuple[Resource[Any], ...]:
        context: tuple[Resource[Any], ...] = (
            NODE_GROUPS, VPSIE_NODES, NODES, PODS, BUDGETS, NAMESPACES, CLAIMS, VOLUMES,
            STORAGE_CLASSES, CSI_NODES, DAEMONSETS, DEPLOYMENTS, REPLICASETS, STATEFULSETS,
        )  # fmt: skip
        holders = self._settings.holders
        return (*context, holders.resource) if holders is not None else context

    # ── which keys does a change concern? ────────────────────────────────────────────────────────────────────────────

    def keys(self, _: Resource[Any], changed: KubeObject, view: View) -> Iterable[Key]:
        match changed:
            case NodeGroup():
                return (
                    CLUSTER,
                    *(
                        VPSIE_NODES.key(one)
                        for one in view[VPSIE_NODES].by(BY_GROUP, f"{changed.namespace}/{changed.name}")
                    ),
                )
            case VPSieNode():
                return (VPSIE_NODES.key(changed), CLUSTER)
            case Node():
                machine = changed.spec.provider_id.rpartition("/")[2]
                own = (
                    *view[VPSIE_NODES].by(BY_NODE_NAME, changed.name),
                    *(view[VPSIE_NODES].by(BY_MACHINE, machine) if machine else ()),
                )
                return (CLUSTER, *dict.fromkeys(VPSIE_NODES.key(one) for one in own))
            case Pod():
                if not changed.spec.node_name:
                    return (CLUSTER,)
                own = view[VPSIE_NODES].by(BY_NODE_NAME, changed.spec.node_name)
                return (
                    (
                        CLUSTER,
                        *(VPSIE_NODES.key(one) for one in own if one.being_removed or one.status.first_pod_at is None),
                    )
                    if own
                    else ()
                )
            case PodDisruptionBudget() | DaemonSet():
                return (CLUSTER,)
            case _:
                return ()

    # ── decisions ────────────────────────────────────────────────────────────────────────────────────────────────────

    def decide(self, key: Key, view: View, now: datetime) -> Decision:
        context = self._context(view, now)
        if key == CLUSTER:
            return self._decide_groups(context)
        node = view[VPSIE_NODES].get(key.namespace, key.name)
        if node is None:
            return NodeDecision(reason=Reason("Gone", f"{key} does not exist any more"), forget=True)
        if node.terminating or node.phase in ("Terminating", "Deleting"):
            return decide_drain(node, context, self._ask(key, view), self._further_checks)
        return decide_lifecycle(node, context)

    def removal_blockers(self, key: Key, view: View, now: datetime) -> tuple[Blocker, ...]:
        """Everything that blocks the removal of a VPSieNode's node now, whether or not it is a candidate; for explanations."""
        context = self._context(view, now)
        groups = group_states(context)
        for group in groups:
            for member in group.remaining:
                node = group.nodes.get(member.name)
                if node is not None and VPSIE_NODES.key(member) == key:
                    candidate = RemovalCandidate(member, node, group, partial(context.pods_to_move_from, node.name))
                    return all_blockers(
                        candidate, groups, context, self._ask(key, view),
                        expected=self._expected_pods(key, groups, context), further_checks=self._further_checks,
                    )  # fmt: skip
        return ()

    def growth_options(self, view: View, now: datetime) -> GrowthOptions:
        """The nodes that groups could still add, for a controller that needs a place for a pod before it evicts it."""
        context = self._context(view, now)
        valid = [one for one in group_states(context) if spec_problem(one.group) is None and not one.group.terminating]
        return growth_options(valid, context, daemon_pods(view[DAEMONSETS]))

    def _context(self, view: View, now: datetime) -> DecisionContext:
        return DecisionContext(view, now, self._settings, self.inventories, self.state.members)

    def _expected_pods(self, key: Key, groups: Sequence[GroupState], context: DecisionContext) -> dict[str, str]:
        """Existing node → a pending pod that fits on it."""
        unbound = context.view[PODS].by(UNBOUND, "")
        pods = pending_pods(context.view, context.now, context.settings.unschedulable_pod_grace).pods
        question = scale_up_question(pods, groups, context, room={}, sizes=NodeSizes(groups))
        packing = self.planner.packing(key, question, self.state.snapshots.of(context.view)) if pods else None
        expected = scale_up_plan(packing, pods).expected if packing is not None else {}
        return {**expected, **nominated(unbound)}

    def _ask(self, key: Key, view: View) -> Ask:
        return lambda question: self.planner.removals(key, question, self.state.snapshots.of(view))

    def _decide_groups(self, context: DecisionContext) -> GroupsDecision:
        groups = group_states(context)
        problems = {one.key: message for one in groups if (message := spec_problem(one.group)) is not None}
        valid = [one for one in groups if one.key not in problems and not one.group.terminating]
        snapshot = self.state.snapshots.of(context.view)
        unbound = context.view[PODS].by(UNBOUND, "")
        pending = pending_pods(context.view, context.now, context.settings.unschedulable_pod_grace)
        daemons = daemon_pods(context.view[DAEMONSETS]) if pending.pods else ()
        orders = plan_scale_up(
            valid, pending, context, lambda question: self.planner.packing(CLUSTER, question, snapshot), daemons
        )  # fmt: skip
        use: NodeUse = self.measured.at(context.now) if self.measured is not None else RequestedUse(snapshot)
        low_since = self.state.low_use.observe(low_use_nodes(valid, use), context.now)
        if orders is None:
            return self._still_computing("computing which nodes the pending pods need")
        candidates = (
            candidate
            for group in valid
            if not orders.adding(group.key)
            for candidate in removal_candidates(group, context, use, low_since)
        )
        removals = choose_nodes(
            candidates, valid, context, self._ask(CLUSTER, context.view), rounds=self.state.rounds,
            expected={**orders.plan.expected, **nominated(unbound)}, further_checks=self._further_checks,
        )  # fmt: skip
        if removals is None:
            return self._still_computing("computing which nodes can be removed")
        moments = [pending.next_at, next_candidate_at(valid, context, low_since)]
        if removals.more:
            moments.append(context.now + NEXT_ROUND)
        decision = _groups_decision(
            groups, problems, orders, removals, context, moments=[one for one in moments if one]
        )
        of_pods = self.state.pod_events.events(pending.pods, orders, context.now)
        decision = replace(decision, events=(*decision.events, *of_pods))
        self.state.last = decision
        return decision

    def _still_computing(self, what: str) -> GroupsDecision:
        """Does nothing yet and repeats the last decision, so that no event or blocker disappears meanwhile."""
        why = Reason("Computing", what)
        if self.state.last is None:
            return GroupsDecision(reason=why, requeue_after=COMPUTING_RETRY)
        return replace(self.state.last, reason=why, actions=(), requeue_after=COMPUTING_RETRY)


def _groups_decision(
    groups: Sequence[GroupState],
    problems: dict[str, str],
    orders: ScaleUpOrders,
    removals: ScaleDownPlan,
    context: DecisionContext,
    *,
    moments: Sequence[datetime],
) -> GroupsDecision:
    actions: list[Action] = [*_left_over_taints(context)]
    verdicts: dict[str, GroupVerdict] = {}
    for group in groups:
        chosen = [candidate for candidate in removals.chosen if candidate.group.key == group.key]
        verdict = orders.verdict(group, removing=len(chosen), spec_problem=problems.get(group.key, ""))
        verdict = replace(
            verdict,
            prices_per_hour=report.prices_per_hour(group, context),
            provider_error=context.inventories.current_error(group.group.spec.provider, context.now),
        )
        verdicts[group.key] = verdict
        actions += _writes(group, verdict, orders, chosen, context)
    blockers = [*orders.blockers, *(node.blocker for node in removals.blocked)]
    if removals.halted is not None:
        blockers.append(removals.halted)
    considered = (*removals.chosen, *(node.candidate for node in removals.blocked))
    return GroupsDecision(
        reason=_reason(verdicts, orders, removals),
        actions=tuple(actions),
        blockers=tuple(blockers),
        requeue_after=_requeue_after(groups, blockers, moments, context),
        problems=(
            *(
                Problem(Ref.to(NODE_GROUPS, one.group), "InvalidSpec", f"NodeGroup {one.key}: {problems[one.key]}")
                for one in groups
                if one.key in problems
            ),
            *(problem for one in groups if (problem := other_installation_problem(one, context)) is not None),
            *report.provider_problems(verdicts.values(), groups),
            *invalid_opt_outs((pod for candidate in considered for pod in candidate.pods), context.now),
        ),
        events=(*report.blocked_events(removals.blocked), *orders.events),
        gauges=tuple(report.group_gauges(groups, verdicts)),
        verdicts=tuple(verdicts.values()),
        scale_up=orders.plan,
        blocked_nodes=removals.blocked,
    )


def _writes(
    group: GroupState,
    verdict: GroupVerdict,
    orders: ScaleUpOrders,
    chosen: Sequence[RemovalCandidate],
    context: DecisionContext,
) -> list[Action]:
    """The group's status first, so that the time of the scaling is recorded before anything is created or removed."""
    creations = orders.creations(group, context.settings.namespace)
    actions: list[Action] = []
    changed = report.status_of(
        group, verdict, context, created=orders.last_number(group), scaled_up=bool(creations), scaled_down=bool(chosen)
    )
    if changed:
        why = Reason("Status", f"update the status of group {group.key}")
        event = report.scaling_up(group, verdict, orders.why(group.key)) if creations else None
        actions.append(group_status(group.group, changed, why, event))
    actions += creations
    actions += [_start_drain(candidate, context) for candidate in chosen]
    return actions


def _start_drain(candidate: RemovalCandidate, context: DecisionContext) -> Patch:
    member = candidate.member
    why = Reason(CHOSEN, candidate.why)
    condition = Condition(type="Draining", status="True", reason=CHOSEN, message=candidate.why)
    fields = {
        "phase": "Terminating",
        "terminatingAt": status_time(context.now),
        "conditions": merge_conditions(member, condition, now=context.now),
    }
    code = "Empty" if not candidate.pods else "Underutilized"
    return node_status(member, fields, why, report.scaling_down(candidate.group, candidate.name, code, candidate.why))


def _left_over_taints(context: DecisionContext) -> list[Action]:
    """Remove our taint from nodes that no VPSieNode stands for any more: nothing else would."""
    why = Reason("TaintLeft", "remove our left-over taint from a node without a VPSieNode")
    return [
        untaint(node, why)
        for node in context.view[NODES].by(BY_TAINT, DRAIN_TAINT)
        if not context.view[VPSIE_NODES].by(BY_NODE_NAME, node.name)
        and not any(one.name == node.labels.get(VPSIE_NODE) for one in context.view[VPSIE_NODES])
    ]


def _reason(verdicts: dict[str, GroupVerdict], orders: ScaleUpOrders, removals: ScaleDownPlan) -> Reason:
    adding = {key: verdict.adding for key, verdict in verdicts.items() if verdict.adding}
    if adding:
        return Reason("ScalingUp", ", ".join(f"add {count} nodes to group {key}" for key, count in adding.items()))
    if removals.chosen:
        return Reason("ScalingDown", ", ".join(candidate.why for candidate in removals.chosen))
    if removals.halted is not None:
        return Reason(removals.halted.code, removals.halted.message)
    if orders.plan.unplaced:
        pod, why = next(iter(orders.plan.unplaced.items()))
        text = f"{len(orders.plan.unplaced)} pods are pending and no group helps them; {pod}: {why}"
        return Reason("NoGroupHelps", "; ".join((text, *(blocker.message for blocker in orders.blockers))))
    return Reason("Settled", "each group has the nodes that it needs")


def _requeue_after(
    groups: Sequence[GroupState], blockers: Iterable[Blocker], due: Iterable[datetime], context: DecisionContext
) -> timedelta | None:
    """`due`: moments at which something changes without any event."""
    if not groups:
        return None
    moments = [context.now + MAX_INTERVAL, *due]
    moments += [blocker.until for blocker in blockers if blocker.until is not None]
    return max(min(moments) - context.now, timedelta(milliseconds=100))
