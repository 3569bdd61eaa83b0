"""The drain of one node: taint it, check it again, evict its pods, delete the machine, then the Node and the VPSieNode.

    Terminating, ScaleDown   the node gets our taint, and kube-scheduler gets time to see it
                 Evicting    every check has passed again on the tainted node; pods are being evicted
    Deleting                 written right before the deletion of the machine is requested; from here on there is no way back

The state of a drain is in the VPSieNode (phase, and reason of the condition `Draining`) and in the taint, so a new leader continues
it. Before `Deleting`, a blocker or a drain that takes too long cancels the drain and removes the taint. A node that failed, or whose
VPSieNode a person deleted, is never kept: its drain waits until it can proceed. `controller` calls `decide_drain`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from plimsoll.controllers.nodegroups.backoff import failure_recorded
from plimsoll.controllers.nodegroups.group_state import (
    DecisionContext,
    GroupState,
    belongs_to_another_order,
    find_machine,
    group_state,
    pods_to_move,
)
from plimsoll.controllers.nodegroups.lifecycle.lifecycle import NodeDecision
from plimsoll.controllers.nodegroups.lifecycle.order import FINAL_ERRORS
from plimsoll.controllers.nodegroups.lifecycle.termination import Termination, termination_step
from plimsoll.controllers.nodegroups.members import GroupMembers
from plimsoll.controllers.nodegroups.patches import (
    drain_taint,
    finalizers,
    merge_conditions,
    node_status,
    status_time,
    taint,
    untaint,
)
from plimsoll.controllers.nodegroups.scale_down.checks.check import Check, CheckContext, RemovalCandidate, first_blocker
from plimsoll.controllers.nodegroups.scale_down.checks.pods import single_replica_may_move
from plimsoll.controllers.nodegroups.scale_down.checks.registry import PODS_EXPECTED, checks_at
from plimsoll.controllers.nodegroups.scale_down.scale_down import Ask, removal_question
from plimsoll.controllers.nodegroups.scale_down.unready import blocks_replacement, halt
from plimsoll.controllers.nodegroups.scale_up.pending_pods import nominated
from plimsoll.controllers.nodegroups.spec import minimum_size
from plimsoll.controllers.nodegroups.types import (
    FINALIZER,
    NODE_GROUPS,
    VPSIE_NODE,
    VPSIE_NODES,
    NodeGroup,
    VPSieNode,
    find_condition,
)
from plimsoll.disruption.last_ready import wanted_replicas
from plimsoll.disruption.opt_out import said_safe
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.meta import Condition
from plimsoll.kube.types.resources import NODES, PODS, UNBOUND
from plimsoll.kube.workloads import owner_of
from plimsoll.runtime.decision import (
    Action,
    Blocker,
    Counter,
    Delete,
    Event,
    Evict,
    Histogram,
    Reason,
    Ref,
    Transaction,
)

CHOSEN, CHECKED = "ScaleDown", "Evicting"  # reasons of the condition `Draining`
# For this long an order of a former leader may still be in flight: a machine that is not listed may yet appear.
MAX_ORDER_IN_FLIGHT = timedelta(minutes=3)
# If a machine is still listed this long after its deletion was requested, the deletion is requested again.
MAX_DELETION_TIME = timedelta(minutes=2)
_COMPUTING = Blocker("Computing", "computing whether its pods fit elsewhere")


def decide_drain(
    node: VPSieNode, context: DecisionContext, ask: Ask, further_checks: tuple[Check, ...] = ()
) -> NodeDecision:
    """The next step for a VPSieNode that is being removed: chosen by scale-down, failed, or deleted by a person."""
    if node.terminating and FINALIZER not in node.metadata.finalizers:
        return _decision(node, Reason("Gone", "its finalizer is gone; another controller finishes its deletion"))
    if node.phase not in ("Terminating", "Deleting"):
        why = Reason("Deleted", f"VPSieNode {node.name} was deleted, so its machine is deleted, too")
        return _decision(node, why, _begin(node, context, "Deleted", why))
    if node.phase == "Deleting" and node.status.deleted_at is not None:
        return _await_deletion(node, context)
    there = context.node_of(node)
    if there is None or there.labels.get(VPSIE_NODE, node.name) != node.name:
        return _delete_machine(node, context)
    tainted = drain_taint(there)
    if tainted is None:
        why = Reason("Tainting", f"taint node {there.name} so that no more pods are bound to it: {_why(node)}")
        return _decision(node, why, taint(there, context.now, why))
    since = tainted.time_added or node.status.terminating_at or context.now
    wait = since + context.settings.taint_wait - context.now
    if wait > timedelta(0):
        return _decision(
            node, Reason("Tainted", f"wait until kube-scheduler has seen the taint of node {there.name}"), again=wait
        )
    return _evict_and_delete(node, there, context, ask, further_checks)


def _begin(node: VPSieNode, context: DecisionContext, reason: str, why: Reason) -> Action:
    condition = Condition(type="Draining", status="True", reason=reason, message=why.message)
    fields = {
        "phase": "Terminating",
        "terminatingAt": status_time(context.now),
        "conditions": merge_conditions(node, condition, now=context.now),
    }
    return node_status(node, fields, why)


# ── evictions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _evict_and_delete(
    node: VPSieNode, there: Node, context: DecisionContext, ask: Ask, further_checks: tuple[Check, ...]
) -> NodeDecision:
    pods = tuple(pods_to_move(context.pods_on(there.name)))
    ours = node.phase == "Terminating" and not node.terminating and _reason(node) in (CHOSEN, CHECKED)
    if ours:
        blocker = halt(context) or _blocker(node, there, context, ask, further_checks)
        began = node.status.terminating_at or context.now
        limit = context.settings.drain_timeout
        if blocker is None and context.now - began > limit:
            left = f"{len(pods)} pods" if pods else "its volumes"
            blocker = Blocker("DrainTimeout", f"node {there.name} still has {left} after {limit}")
        if blocker is _COMPUTING:
            return _decision(node, Reason(blocker.code, blocker.message), context=context)
        if blocker is not None:
            return _cancel(node, there, blocker, context)
        if _reason(node) == CHOSEN and pods:
            why = Reason(
                CHECKED, f"node {there.name} is tainted and passed every check again: evicting its {len(pods)} pods"
            )
            condition = Condition(type="Draining", status="True", reason=CHECKED, message=why.message)
            fields = {"conditions": merge_conditions(node, condition, now=context.now)}
            return _decision(node, why, node_status(node, fields, why))
    if pods:
        return _evict(node, there, pods, context, further_checks)
    if there.status.volumes_attached:
        message = f"{len(there.status.volumes_attached)} volumes are still attached to node {there.name}"
        return _decision(
            node, Reason("VolumesAttached", message), blocker=Blocker("VolumesAttached", message), context=context
        )
    return _delete_machine(node, context, only_if_unready=ours and not there.ready)


def _blocker(
    node: VPSieNode, there: Node, context: DecisionContext, ask: Ask, further_checks: tuple[Check, ...]
) -> Blocker | None:
    pods = tuple(pods_to_move(context.pods_on(there.name)))
    named = context.group_of(node)
    if named is None:
        return None  # the group was deleted, and its nodes with it
    group = group_state(named, context)
    groups, key, minimum = (group,), group.key, minimum_size(named)
    # `joined` does not include this node any more.
    if group.joined < minimum and not blocks_replacement(there, pods, group, context):
        return Blocker(
            "NodeGroupMinSizeReached", f"group {key} would have {group.joined} nodes and must keep {minimum}"
        )
    candidate = RemovalCandidate(node, there, group, lambda: pods)
    if _reason(node) == CHECKED:
        not_evicted = [pod for pod in pods if not pod.terminating]
        candidate = RemovalCandidate(node, there, group, lambda: not_evicted)
        return first_blocker(checks_at("pods"), candidate, CheckContext(context, groups))
    answers = ask(removal_question((there.name,), context)) if pods else ()
    if answers is None:
        return _COMPUTING
    expected = nominated(context.view[PODS].by(UNBOUND, ""))
    check_context = CheckContext(
        context, groups, removals={answer.node: answer for answer in answers}, expected=expected
    )
    checks = (PODS_EXPECTED, *checks_at("pods", "eviction"), *further_checks, *checks_at("packing"))
    return first_blocker(checks, candidate, check_context)


def _evict(
    node: VPSieNode, there: Node, pods: tuple[Pod, ...], context: DecisionContext, further_checks: tuple[Check, ...]
) -> NodeDecision:
    to_evict = [pod for pod in pods if not pod.terminating]
    evictable, blockers = _evictable(node, there, to_evict, context, further_checks)
    why = Reason("Draining", f"drain node {there.name}: {_why(node)}")
    actions = [
        Evict(Ref.to(PODS, pod), owner_of(pod, context.view).key, why, may_be_last=_may_be_last(pod, node, context))
        for pod in evictable
    ]
    if not to_evict:
        why = Reason("Draining", f"{len(pods)} pods on node {there.name} are terminating")
    elif not evictable:
        why = Reason(blockers[0].code, f"node {there.name} cannot be drained yet: {blockers[0].message}")
    # In a scale-down the blockers end when the replacements are ready, or the drain is cancelled: no event.
    reported = blockers if _reason(node) != CHECKED else ()
    return NodeDecision(
        reason=why, actions=tuple(actions), in_order=False, blockers=blockers, requeue_after=context.settings.retry_interval,
        events=tuple(_blocked_event(node, there, blocker) for blocker in reported), phase=node.phase,
    )  # fmt: skip


def _may_be_last(pod: Pod, node: VPSieNode, context: DecisionContext) -> bool:
    """Whether the pod may be evicted although it is the last ready replica; a workload of several replicas never allows it."""
    if said_safe(pod):
        return True
    group = context.group_of(node) or NodeGroup()
    single = wanted_replicas(owner_of(pod, context.view)) <= 1
    return single and single_replica_may_move(pod, group, context.settings)


def _evictable(
    node: VPSieNode, there: Node, to_evict: list[Pod], context: DecisionContext, further_checks: tuple[Check, ...]
) -> tuple[list[Pod], tuple[Blocker, ...]]:
    """The pods that may be evicted now, and the blockers of the others.

    The checks of other controllers hold for each pod, also if a person deleted the VPSieNode.
    """
    named = context.group_of(node)
    group = group_state(named, context) if named is not None else GroupState(NodeGroup(), GroupMembers())
    check_context = CheckContext(context, (group,))

    def blocker_of(*pods: Pod) -> Blocker | None:
        return first_blocker(further_checks, RemovalCandidate(node, there, group, lambda: pods), check_context)

    if blocker_of(*to_evict) is None:
        return to_evict, ()
    evictable: list[Pod] = []
    blockers: dict[str, Blocker] = {}
    for pod in to_evict:
        blocker = blocker_of(*evictable, pod)
        if blocker is None:
            evictable.append(pod)
        else:
            blockers.setdefault(blocker.code, blocker)
    return evictable, tuple(blockers.values())


def _blocked_event(node: VPSieNode, there: Node, blocker: Blocker) -> Event:
    text = f"node {there.name} is being removed and cannot be drained yet: {blocker.message}"
    return Event(Ref.to(VPSIE_NODES, node), "ScaleDownBlocked", text, "Warning", counts=(_count(node, blocker),))


def _count(node: VPSieNode, blocker: Blocker) -> Counter:
    labels = {"nodegroup": node.spec.node_group_name, "namespace": node.namespace, "reason": blocker.code}
    return Counter("vpsie_autoscaler_scale_down_blocked_total", labels)


def _cancel(node: VPSieNode, there: Node, blocker: Blocker, context: DecisionContext) -> NodeDecision:
    why = Reason(blocker.code, f"the drain of node {there.name} was cancelled: {blocker.message}")
    condition = Condition(type="Draining", status="False", reason=blocker.code, message=blocker.message)
    fields: dict[str, Any] = {
        "phase": "Ready",
        "terminatingAt": None,
        "conditions": merge_conditions(node, condition, now=context.now),
    }
    event = Event(
        Ref.to(VPSIE_NODES, node), "ScaleDownBlocked", why.message, "Warning", counts=(_count(node, blocker),)
    )  # fmt: skip
    # The phase first: in phase Ready a left-over taint is removed. In the other order a crash in between would put it back.
    actions = (node_status(node, fields, why, event), untaint(there, why))
    return NodeDecision(reason=why, actions=actions, blockers=(blocker,), phase=node.phase)


# ── machine and objects ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _delete_machine(node: VPSieNode, context: DecisionContext, *, only_if_unready: bool = False) -> NodeDecision:
    group = context.group_of(node)
    if group is not None and not failure_recorded(node, group):
        why = Reason("NeverServed", "wait until the group's status has recorded that the node never ran a pod")
        return _decision(node, why, context=context)
    inventory = context.inventory(node.spec.provider)
    if inventory is None:
        error = context.inventories.last_error(node.spec.provider)
        message = f"provider {node.spec.provider} cannot be used: {error}"
        return _decision(
            node, Reason("ProviderUnknown", message), blocker=Blocker("ProviderUnknown", message), context=context
        )
    if belongs_to_another_order(inventory, node):
        why = Reason(
            "AnotherMachine", f"machine {node.spec.vpsie_instance_id} belongs to another order and is not deleted"
        )
        return _decision(node, why, *_delete_objects(node, context, why))
    machine = find_machine(inventory, node)
    machine_id = node.spec.vpsie_instance_id or (machine.id if machine is not None else "")
    if not machine_id:
        ordered_at = node.status.created_at
        settled = (
            ordered_at is None
            or _reason_of_failure(node) in FINAL_ERRORS
            or inventory.requested_at - ordered_at > MAX_ORDER_IN_FLIGHT
        )
        if not settled:
            return _decision(
                node, Reason("OrderUnderWay", "a machine of an earlier order may still appear"), context=context
            )
        why = Reason("NoMachine", "no machine was created")
        return _decision(node, why, *_delete_objects(node, context, why))
    why = Reason("GivingBack", f"delete machine {machine_id}: {_why(node)}")
    state = Termination(node, machine_id, why, context.settings.holders, only_if_unready)
    return _decision(node, why, Transaction(Ref.to(VPSIE_NODES, node), state, termination_step, why), context=context)


def _await_deletion(node: VPSieNode, context: DecisionContext) -> NodeDecision:
    """The deletion was requested; the objects stay until the provider no longer lists the machine."""
    inventory, deleted_at = context.inventory(node.spec.provider), node.status.deleted_at
    if inventory is None or deleted_at is None or inventory.requested_at <= deleted_at:
        return _decision(node, Reason("Deleting", "wait for the next poll of the provider"), context=context)
    machine = find_machine(inventory, node)
    if machine is not None:
        if machine.state != "deleting" and inventory.requested_at - deleted_at > MAX_DELETION_TIME:
            why = Reason(
                "StillThere",
                f"machine {machine.id} still exists, its deletion was requested at {deleted_at:%H:%M:%S}: request it again",
            )
            state = Termination(node, machine.id, why, context.settings.holders)
            return _decision(
                node, why, Transaction(Ref.to(VPSIE_NODES, node), state, termination_step, why), context=context
            )
        return _decision(node, Reason("Deleting", f"machine {machine.id} is being deleted"), context=context)
    why = Reason("Removed", f"machine {node.spec.vpsie_instance_id} is gone")
    return _decision(node, why, *_delete_objects(node, context, why))


def _delete_objects(node: VPSieNode, context: DecisionContext, why: Reason) -> list[Action]:
    """Delete the Node, then the VPSieNode; its finalizer is removed once it is terminating."""
    actions: list[Action] = []
    there = context.node_of(node)
    if there is not None and there.labels.get(VPSIE_NODE) == node.name and not there.terminating:
        # Without resourceVersion: heartbeats change it all the time, and the UID identifies the node.
        actions.append(Delete(Ref(NODES, "", there.name, there.uid), why))
    if node.terminating:
        actions.append(finalizers(node, [one for one in node.metadata.finalizers if one != FINALIZER], why))
        return actions
    began, labels = node.status.terminating_at, {"nodegroup": node.spec.node_group_name, "namespace": node.namespace}
    counts: tuple[Counter | Histogram, ...] = ()
    if began is not None:
        seconds = (context.now - began).total_seconds()
        counts = (Histogram("vpsie_autoscaler_node_drain_duration_seconds", seconds, labels),)
    group = context.group_of(node)
    about = Ref.to(NODE_GROUPS, group) if group is not None else Ref.to(VPSIE_NODES, node)
    event = Event(about, "NodeRemoved", f"node {node.node_name} was removed: {_why(node)}", counts=counts)
    target = Ref.to(VPSIE_NODES, node)
    actions.append(Delete(target, why, event))
    return actions


def _reason(node: VPSieNode) -> str:
    condition = find_condition(node, "Draining")
    return condition.reason if condition is not None and condition.status == "True" else ""


def _reason_of_failure(node: VPSieNode) -> str:
    condition = find_condition(node, "Failed")
    return condition.reason if condition is not None else ""


def _why(node: VPSieNode) -> str:
    condition = find_condition(node, "Draining")
    return condition.message if condition is not None else "its VPSieNode was deleted"


def _decision(
    node: VPSieNode,
    why: Reason,
    *actions: Action,
    blocker: Blocker | None = None,
    context: DecisionContext | None = None,
    again: timedelta | None = None,
) -> NodeDecision:
    if again is None and context is not None:
        again = context.settings.retry_interval
    blockers = (blocker,) if blocker is not None else ()
    return NodeDecision(reason=why, actions=actions, blockers=blockers, requeue_after=again, phase=node.phase)
