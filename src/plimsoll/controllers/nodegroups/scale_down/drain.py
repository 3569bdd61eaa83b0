"""How a node leaves: tainted, looked at again, emptied pod by pod, and only then given back.

    Terminating, chosen      our taint is put on the node, and the scheduler is given time to see it
                checked      every check has passed once more, on the tainted node; pods are evicted
    Deleting                 written just before the machine is given back: no way back; then the Node and the VPSieNode go

Where each node stands is written in its VPSieNode (phase, and the reason of the condition `Draining`) and in the taint, so
whoever leads next goes on from there. Until `Deleting` a verdict of "blocked", or a drain that takes too long, takes the taint away
again. A node that failed, or whose VPSieNode someone deleted, is not taken back: it waits until it may go.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from plimsoll.controllers.nodegroups.group_state import GroupSeen, Seen, group_with, is_anothers, machine_in, must_move
from plimsoll.controllers.nodegroups.lifecycle.phases import NodeDecision
from plimsoll.controllers.nodegroups.lifecycle.provisioning import FINAL
from plimsoll.controllers.nodegroups.lifecycle.termination import GivingBack, step
from plimsoll.controllers.nodegroups.members import Members
from plimsoll.controllers.nodegroups.patches import (
    conditions_with,
    finalizers,
    leaving_taint,
    node_status,
    stamp,
    taint,
    untaint,
)
from plimsoll.controllers.nodegroups.scale_down.checks.opt_outs import said_safe
from plimsoll.controllers.nodegroups.scale_down.checks.pods import pods_expected
from plimsoll.controllers.nodegroups.scale_down.checks.registry import ABOUT_PODS, BEFORE_EVICTING, LAST, first_blocker
from plimsoll.controllers.nodegroups.scale_down.context import Candidate, Check, Situation
from plimsoll.controllers.nodegroups.scale_down.scale_down import Ask, question_about
from plimsoll.controllers.nodegroups.scale_down.unready import halt, is_in_the_way
from plimsoll.controllers.nodegroups.scale_up.pending_pods import nominated
from plimsoll.controllers.nodegroups.spec import floor_of
from plimsoll.controllers.nodegroups.types import (
    FINALIZER,
    NODE_GROUPS,
    VPSIE_NODE,
    VPSIE_NODES,
    NodeGroup,
    VPSieNode,
    condition_of,
)
from plimsoll.kube.types.core import Condition, Node, Pod
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
# An order of a former leader may still be under way for so long: until then, no machine does not mean that none will come.
ORDER_UNDER_WAY = timedelta(minutes=3)
# A machine that its provider agreed to remove and still shows after this is given back once more.
REMOVAL_EXPECTED = timedelta(minutes=2)
_COMPUTING = Blocker("Computing", "whether its pods have another place is being worked out")


def leave(node: VPSieNode, seen: Seen, ask: Ask, further_checks: tuple[Check, ...] = ()) -> NodeDecision:
    """For a node that is to go: chosen by us, failed, or deleted by someone."""
    if node.terminating and FINALIZER not in node.metadata.finalizers:
        return _decision(node, Reason("Gone", "someone else lets go of it"))
    if node.phase not in ("Terminating", "Deleting"):
        why = Reason("Deleted", f"VPSieNode {node.name} was deleted, so its machine goes")
        return _decision(node, why, _begin(node, seen, "Deleted", why))
    if node.phase == "Deleting" and node.status.deleted_at is not None:
        return _gone(node, seen)
    there = seen.node_of(node)
    if there is None or there.labels.get(VPSIE_NODE, node.name) != node.name:
        return _give_back(node, seen)
    tainted = leaving_taint(there)
    if tainted is None:
        why = Reason("Tainting", f"nothing more is to be bound to node {there.name}: {_why(node)}")
        return _decision(node, why, taint(there, seen.now, why))
    since = tainted.time_added or node.status.terminating_at or seen.now
    wait = since + seen.settings.taint_wait - seen.now
    if wait > timedelta(0):
        return _decision(node, Reason("Tainted", f"the scheduler is given time to see node {there.name}"), again=wait)
    return _empty(node, there, seen, ask, further_checks)


def _begin(node: VPSieNode, seen: Seen, reason: str, why: Reason) -> Action:
    condition = Condition(type="Draining", status="True", reason=reason, message=why.message)
    fields = {
        "phase": "Terminating",
        "terminatingAt": stamp(seen.now),
        "conditions": conditions_with(node, condition, now=seen.now),
    }
    return node_status(node, fields, why)


# ── emptying ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _empty(node: VPSieNode, there: Node, seen: Seen, ask: Ask, further_checks: tuple[Check, ...]) -> NodeDecision:
    pods = tuple(must_move(seen.pods_on(there.name)))
    ours = node.phase == "Terminating" and not node.terminating and _reason(node) in (CHOSEN, CHECKED)
    if ours:
        blocker = halt(seen) or _blocker(node, there, seen, ask, further_checks)
        began = node.status.terminating_at or seen.now
        limit = seen.settings.drain_timeout
        if blocker is None and seen.now - began > limit:
            left = f"{len(pods)} pods" if pods else "its volumes"
            blocker = Blocker("DrainTimeout", f"node {there.name} still has {left} after {limit}")
        if blocker is _COMPUTING:
            return _decision(node, Reason(blocker.code, blocker.message), seen=seen)
        if blocker is not None:
            return _take_back(node, there, blocker, seen)
        if _reason(node) == CHOSEN and pods:
            why = Reason(CHECKED, f"node {there.name} is tainted and may still go: its {len(pods)} pods are evicted")
            condition = Condition(type="Draining", status="True", reason=CHECKED, message=why.message)
            fields = {"conditions": conditions_with(node, condition, now=seen.now)}
            return _decision(node, why, node_status(node, fields, why))
    if pods:
        return _evict(node, there, pods, seen, further_checks)
    if there.status.volumes_attached:
        message = f"{len(there.status.volumes_attached)} volumes are still attached to node {there.name}"
        return _decision(
            node, Reason("VolumesAttached", message), blocker=Blocker("VolumesAttached", message), seen=seen
        )
    return _give_back(node, seen, only_if_unready=ours and not there.ready)


def _blocker(node: VPSieNode, there: Node, seen: Seen, ask: Ask, further_checks: tuple[Check, ...]) -> Blocker | None:
    pods = tuple(must_move(seen.pods_on(there.name)))
    named = seen.group_of(node)
    if named is None:
        return None  # the group was deleted, and its nodes with it
    group = group_with(named, seen)
    groups, key, floor = (group,), group.key, floor_of(named)
    # Without this node, which no longer counts.
    if group.joined < floor and not is_in_the_way(there, pods, group, seen):
        return Blocker("NodeGroupMinSizeReached", f"group {key} would have {group.joined} nodes and must keep {floor}")
    candidate = Candidate(node, there, group, lambda: pods)
    if _reason(node) == CHECKED:
        staying = [pod for pod in pods if not pod.terminating]
        return first_blocker(ABOUT_PODS, Candidate(node, there, group, lambda: staying), Situation(seen, groups))
    answers = ask(question_about((there.name,), seen)) if pods else ()
    if answers is None:
        return _COMPUTING
    expected = nominated(seen.view[PODS].by(UNBOUND, ""))
    situation = Situation(seen, groups, removals={answer.node: answer for answer in answers}, expected=expected)
    return first_blocker((pods_expected, *BEFORE_EVICTING, *further_checks), candidate, situation) or LAST(
        candidate, situation
    )


def _evict(
    node: VPSieNode, there: Node, pods: tuple[Pod, ...], seen: Seen, further_checks: tuple[Check, ...]
) -> NodeDecision:
    standing = [pod for pod in pods if not pod.terminating]
    leaving, kept = _apart(node, there, standing, seen, further_checks)
    why = Reason("Draining", f"node {there.name} is emptied: {_why(node)}")
    actions = [
        Evict(Ref.to(PODS, pod), owner_of(pod, seen.view).key, why, may_be_last=said_safe(pod)) for pod in leaving
    ]
    if not standing:
        why = Reason("Draining", f"{len(pods)} pods are leaving node {there.name}")
    elif not leaving:
        why = Reason(kept[0].code, f"node {there.name} cannot be emptied yet: {kept[0].message}")
    # In a drain of our own this is over once the replacements are ready, or else the node is taken back.
    told = kept if _reason(node) != CHECKED else ()
    return NodeDecision(
        reason=why, actions=tuple(actions), in_order=False, blockers=kept, requeue_after=seen.settings.retry_interval,
        events=tuple(_kept_note(node, there, blocker) for blocker in told), phase=node.phase,
    )  # fmt: skip


def _apart(
    node: VPSieNode, there: Node, standing: list[Pod], seen: Seen, further_checks: tuple[Check, ...]
) -> tuple[list[Pod], tuple[Blocker, ...]]:
    """The pods that may leave now, and what keeps the others.

    Whoever wants the node gone, what the other controllers promise of their workloads holds for each of its pods.
    """
    named = seen.group_of(node)
    group = group_with(named, seen) if named is not None else GroupSeen(NodeGroup(), Members())
    situation = Situation(seen, (group,))

    def objection(*pods: Pod) -> Blocker | None:
        return first_blocker(further_checks, Candidate(node, there, group, lambda: pods), situation)

    if objection(*standing) is None:
        return standing, ()
    leaving: list[Pod] = []
    kept: dict[str, Blocker] = {}
    for pod in standing:
        blocker = objection(*leaving, pod)
        if blocker is None:
            leaving.append(pod)
        else:
            kept.setdefault(blocker.code, blocker)
    return leaving, tuple(kept.values())


def _kept_note(node: VPSieNode, there: Node, blocker: Blocker) -> Event:
    text = f"node {there.name} is to go and cannot be emptied yet: {blocker.message}"
    return Event(Ref.to(VPSIE_NODES, node), "ScaleDownBlocked", text, "Warning", counts=(_count(node, blocker),))


def _count(node: VPSieNode, blocker: Blocker) -> Counter:
    labels = {"nodegroup": node.spec.node_group_name, "namespace": node.namespace, "reason": blocker.code}
    return Counter("vpsie_autoscaler_scale_down_blocked_total", labels)


def _take_back(node: VPSieNode, there: Node, blocker: Blocker, seen: Seen) -> NodeDecision:
    why = Reason(blocker.code, f"node {there.name} stays after all: {blocker.message}")
    condition = Condition(type="Draining", status="False", reason=blocker.code, message=blocker.message)
    fields: dict[str, Any] = {
        "phase": "Ready",
        "terminatingAt": None,
        "conditions": conditions_with(node, condition, now=seen.now),
    }
    event = Event(
        Ref.to(VPSIE_NODES, node), "ScaleDownBlocked", why.message, "Warning", counts=(_count(node, blocker),)
    )  # fmt: skip
    # The phase goes first: whoever reads "Ready" takes a taint that was left away; the other way round, a crash in between
    # would put it back.
    actions = (node_status(node, fields, why, event), untaint(there, why))
    return NodeDecision(reason=why, actions=actions, blockers=(blocker,), phase=node.phase)


# ── giving back ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _give_back(node: VPSieNode, seen: Seen, *, only_if_unready: bool = False) -> NodeDecision:
    sighting = seen.sighting(node.spec.provider)
    if sighting is None:
        trouble = seen.sightings.trouble(node.spec.provider)
        message = f"nothing recent is known of the machines of {node.spec.provider}: {trouble}"
        return _decision(
            node, Reason("ProviderUnknown", message), blocker=Blocker("ProviderUnknown", message), seen=seen
        )
    if is_anothers(sighting, node):
        why = Reason(
            "AnotherMachine", f"machine {node.spec.vpsie_instance_id} belongs to another order: it is left alone"
        )
        return _decision(node, why, *_farewell(node, seen, why))
    machine = machine_in(sighting, node)
    machine_id = node.spec.vpsie_instance_id or (machine.id if machine is not None else "")
    if not machine_id:
        asked = node.status.created_at
        settled = asked is None or _reason_of_failure(node) in FINAL or sighting.asked_at - asked > ORDER_UNDER_WAY
        if not settled:
            return _decision(node, Reason("OrderUnderWay", "a machine may still come of an earlier order"), seen=seen)
        why = Reason("NoMachine", "no machine was ever made")
        return _decision(node, why, *_farewell(node, seen, why))
    why = Reason("GivingBack", f"machine {machine_id} is given back: {_why(node)}")
    state = GivingBack(node, machine_id, why, seen.settings.holders, only_if_unready)
    return _decision(node, why, Transaction(Ref.to(VPSIE_NODES, node), state, step, why), seen=seen)


def _gone(node: VPSieNode, seen: Seen) -> NodeDecision:
    """The provider agreed; the objects stay until it no longer shows the machine."""
    sighting, deleted_at = seen.sighting(node.spec.provider), node.status.deleted_at
    if sighting is None or deleted_at is None or sighting.asked_at <= deleted_at:
        return _decision(node, Reason("Deleting", "the provider is asked whether the machine is gone"), seen=seen)
    machine = machine_in(sighting, node)
    if machine is not None:
        if machine.state != "deleting" and sighting.asked_at - deleted_at > REMOVAL_EXPECTED:
            why = Reason(
                "StillThere", f"machine {machine.id} is still there since {deleted_at:%H:%M:%S}: given back again"
            )
            state = GivingBack(node, machine.id, why, seen.settings.holders)
            return _decision(node, why, Transaction(Ref.to(VPSIE_NODES, node), state, step, why), seen=seen)
        return _decision(node, Reason("Deleting", f"machine {machine.id} is being removed"), seen=seen)
    why = Reason("Removed", f"machine {node.spec.vpsie_instance_id} is gone")
    return _decision(node, why, *_farewell(node, seen, why))


def _farewell(node: VPSieNode, seen: Seen, why: Reason) -> list[Action]:
    """The Node, then the VPSieNode, first marked as deleted and then let go."""
    actions: list[Action] = []
    there = seen.node_of(node)
    if there is not None and there.labels.get(VPSIE_NODE) == node.name and not there.terminating:
        # Without the version: a node's heartbeat changes it all the time, and it is the same node by its UID.
        actions.append(Delete(Ref(NODES, "", there.name, there.uid), why))
    if node.terminating:
        actions.append(finalizers(node, [one for one in node.metadata.finalizers if one != FINALIZER], why))
        return actions
    began, labels = node.status.terminating_at, {"nodegroup": node.spec.node_group_name, "namespace": node.namespace}
    counts: tuple[Counter | Histogram, ...] = ()
    if began is not None:
        seconds = (seen.now - began).total_seconds()
        counts = (Histogram("vpsie_autoscaler_node_drain_duration_seconds", seconds, labels),)
    group = seen.group_of(node)
    about = Ref.to(NODE_GROUPS, group) if group is not None else Ref.to(VPSIE_NODES, node)
    event = Event(about, "NodeRemoved", f"node {node.node_name} was removed: {_why(node)}", counts=counts)
    target = Ref.to(VPSIE_NODES, node)
    actions.append(Delete(target, why, event))
    return actions


def _reason(node: VPSieNode) -> str:
    condition = condition_of(node, "Draining")
    return condition.reason if condition is not None and condition.status == "True" else ""


def _reason_of_failure(node: VPSieNode) -> str:
    condition = condition_of(node, "Failed")
    return condition.reason if condition is not None else ""


def _why(node: VPSieNode) -> str:
    condition = condition_of(node, "Draining")
    return condition.message if condition is not None else "its VPSieNode was deleted"


def _decision(
    node: VPSieNode,
    why: Reason,
    *actions: Action,
    blocker: Blocker | None = None,
    seen: Seen | None = None,
    again: timedelta | None = None,
) -> NodeDecision:
    if again is None and seen is not None:
        again = seen.settings.retry_interval
    blockers = (blocker,) if blocker is not None else ()
    return NodeDecision(reason=why, actions=actions, blockers=blockers, requeue_after=again, phase=node.phase)
