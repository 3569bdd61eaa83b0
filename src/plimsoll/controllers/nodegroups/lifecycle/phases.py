"""The life of a node until it is ready, and what becomes of one that never is.

Pending → Provisioning → Provisioned → Joining → Ready; Failed, where a machine is refused, fails, or takes too long. A failed
one waits until its group has entered the failure (`setbacks`), then goes the way of all nodes (`drain`).
"""

from __future__ import annotations

from typing import Any

from plimsoll.controllers.nodegroups.backoff import accounted
from plimsoll.controllers.nodegroups.group_state import Seen, machine_in, takes_pods
from plimsoll.controllers.nodegroups.lifecycle.provisioning import Order, failed, step
from plimsoll.controllers.nodegroups.members import oldest_first
from plimsoll.controllers.nodegroups.node_template import own_labels
from plimsoll.controllers.nodegroups.patches import (
    conditions_with,
    finalizers,
    leaving_taint,
    node_status,
    stamp,
    untaint,
)
from plimsoll.controllers.nodegroups.scale_down.unready import halt
from plimsoll.controllers.nodegroups.types import FINALIZER, VPSIE_NODES, NodeGroup, VPSieNode, condition_of
from plimsoll.kube.codec import builtins
from plimsoll.kube.types.core import Condition, Node
from plimsoll.kube.types.resources import NODES
from plimsoll.providers.protocol import MachineRequest
from plimsoll.runtime.decision import (
    Action,
    Blocker,
    Decision,
    Delete,
    Event,
    Histogram,
    Patch,
    Reason,
    Ref,
    Transaction,
)


class NodeDecision(Decision, frozen=True, kw_only=True):
    """What is done about one VPSieNode."""

    phase: str = ""


def live(node: VPSieNode, seen: Seen) -> NodeDecision:
    """For a node that nobody wants to remove."""
    if FINALIZER not in node.metadata.finalizers:
        why = Reason("Adopting", "the object must stay for as long as its machine")
        return _decision(node, why, finalizers(node, (*node.metadata.finalizers, FINALIZER), why))
    group = seen.group_of(node)
    match node.phase:
        case "Pending" | "Provisioning" if not node.spec.vpsie_instance_id:
            return _order(node, group, seen)
        case "Pending" | "Provisioning":
            return _provisioning(node, group, seen)
        case "Provisioned" | "Joining":
            return _joining(node, group, seen)
        case "Ready":
            return _ready(node, group, seen)
        case "Failed":
            return _failed(node, group, seen)
        case _:
            return _decision(node, Reason("UnknownPhase", f"the phase {node.phase} is none that we know"))


# ── ordering ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _order(node: VPSieNode, group: NodeGroup | None, seen: Seen) -> NodeDecision:
    sighting = seen.sighting(node.spec.provider)
    if group is None or group.terminating:
        why = Reason("NoGroup", f"its NodeGroup {node.spec.node_group_name} is gone")
        return _decision(node, why, Delete(Ref.to(VPSIE_NODES, node), why))
    if sighting is None:
        return _blind(node, seen)
    machine = machine_in(sighting, node)
    if machine is not None:
        why = Reason("Ordered", f"the machine is {machine.id}: an earlier order had come through")
        return _decision(node, why, Patch(Ref.to(VPSIE_NODES, node), {"spec": {"vpsieInstanceID": machine.id}}, why))
    asked = node.status.created_at
    if asked is not None and seen.now - asked > seen.settings.provisioning_timeout:
        message = f"no machine was made within {seen.settings.provisioning_timeout}"
        return _fail(node, group, "ProvisioningTimeout", message, seen)
    if node.phase == "Pending":
        surplus = _surplus(node, group, seen)
        if surplus is not None:
            return _decision(node, surplus, Delete(Ref.to(VPSIE_NODES, node), surplus))
    others = [one for one in sighting.machines.values() if one.group == group_tag(group) and one.state != "deleting"]
    if sighting.capabilities.lists_by_group and len(others) >= group.spec.max_nodes:
        message = (
            f"{node.spec.provider} counts {len(others)} machines of the group, which may have {group.spec.max_nodes}"
        )
        return _decision(node, Reason("AtMaxCapacity", message), blocker=Blocker("AtMaxCapacity", message), seen=seen)
    order = Order(node, group, request_for(node, group))
    why = Reason("Ordering", f"a machine of offering {node.spec.instance_type} for group {group.name}")
    return _decision(node, why, Transaction(Ref.to(VPSIE_NODES, node), order, step, why), seen=seen)


def _surplus(node: VPSieNode, group: NodeGroup, seen: Seen) -> Reason | None:
    """A node too many, as a write of an earlier leader may leave one: it goes before it costs anything."""
    staying = sorted((one for one in seen.members(group) if not one.leaving), key=oldest_first)
    if node in staying and staying.index(node) >= group.spec.max_nodes:
        return Reason("Surplus", f"group {group.name} has {len(staying)} nodes and may have {group.spec.max_nodes}")
    return None


def group_tag(group: NodeGroup) -> str:
    """The group's name at the provider."""
    return f"{group.namespace}.{group.name}"


def request_for(node: VPSieNode, group: NodeGroup) -> MachineRequest:
    spec = node.spec
    return MachineRequest(
        key=node.uid, name=node.name, group=group_tag(group), offering=spec.instance_type, datacenter=spec.datacenter_id,
        resource_identifier=spec.resource_identifier, kubernetes_version=spec.kubernetes_version, image=spec.os_image_id,
        ssh_keys=spec.ssh_key_ids, project=spec.project, tags=group.spec.tags, notes=group.spec.notes,
        labels=own_labels(group, spec.instance_type, node.name), taints=group.spec.taints,
    )  # fmt: skip


# ── waiting for the node ─────────────────────────────────────────────────────────────────────────────────────────────


def _provisioning(node: VPSieNode, group: NodeGroup | None, seen: Seen) -> NodeDecision:
    sighting = seen.sighting(node.spec.provider)
    machine = seen.machine_of(node)
    if machine is not None and machine.state == "failed":
        return _fail(node, group, "MachineFailed", machine.message or f"machine {machine.id} failed", seen)
    there = seen.node_of(node)
    if there is not None:
        # A provider's list may lag behind, or not come at all: a node that has joined is more than a list can say.
        fields = {
            "phase": "Provisioned",
            "provisionedAt": stamp(seen.now),
            "nodeName": there.name,
            "hostname": there.name,
        }
        why = Reason("Provisioned", f"node {there.name} has joined")
        return _decision(node, why, node_status(node, fields, why))
    if sighting is None:
        return _blind(node, seen)
    if machine is not None and machine.state == "running":
        name = machine.node_name or machine.name or node.name
        fields = {"phase": "Provisioned", "provisionedAt": stamp(seen.now), "nodeName": name, "hostname": name}
        why = Reason("Provisioned", f"machine {machine.id} runs")
        return _decision(node, why, node_status(node, fields, why))
    since = node.status.created_at or node.metadata.creation_timestamp or seen.now
    limit = seen.settings.provisioning_timeout
    if seen.now - since > limit:
        where = "is still being made" if machine is not None else "is not there any more"
        return _fail(
            node, group, "ProvisioningTimeout", f"machine {node.spec.vpsie_instance_id} {where} after {limit}", seen
        )
    return _decision(node, Reason("Provisioning", f"machine {node.spec.vpsie_instance_id} is being made"), seen=seen)


def _joining(node: VPSieNode, group: NodeGroup | None, seen: Seen) -> NodeDecision:
    there = seen.node_of(node)
    since = node.status.provisioned_at or node.status.created_at or seen.now
    if there is not None and takes_pods(there):
        began = node.status.created_at or node.metadata.creation_timestamp or seen.now
        fields: dict[str, Any] = {
            "phase": "Ready",
            "readyAt": stamp(seen.now),
            "nodeName": there.name,
            "lastError": None,
        }
        fields["joinedAt"] = stamp(node.status.joined_at or seen.now)
        condition = Condition(type="Ready", status="True", reason="NodeReady", message=f"node {there.name} is ready")
        fields["conditions"] = conditions_with(node, condition, now=seen.now)
        labels = {"nodegroup": node.spec.node_group_name, "namespace": node.namespace}
        took = Histogram(
            "vpsie_autoscaler_node_provisioning_duration_seconds", (seen.now - began).total_seconds(), labels
        )
        why = Reason("Ready", f"node {there.name} has joined and is ready")
        event = Event(Ref.to(VPSIE_NODES, node), "NodeReady", why.message, counts=(took,))
        return _decision(node, why, *_dressed(node, there, group), node_status(node, fields, why, event))
    limit = seen.settings.joining_timeout
    if seen.now - since > limit:
        what = "has not become ready" if there is not None else "has not joined"
        return _fail(node, group, "JoiningTimeout", f"node {node.node_name} {what} within {limit}", seen)
    if there is not None and node.phase != "Joining":
        why = Reason("Joining", f"node {there.name} has joined and is not ready yet")
        fields = {"phase": "Joining", "joinedAt": stamp(seen.now)}
        return _decision(node, why, *_dressed(node, there, group), node_status(node, fields, why))
    return _decision(node, Reason("Joining", f"node {node.node_name} is awaited"), seen=seen)


def _dressed(node: VPSieNode, there: Node, group: NodeGroup | None) -> list[Action]:
    """The labels of the group, where the machine came without them; and its taints, until the node is ready: then they are people's."""
    if group is None:
        return []
    wanted = own_labels(group, node.spec.instance_type, node.name)
    labels = {key: value for key, value in wanted.items() if there.labels.get(key) != value}
    has = {(taint.key, taint.effect) for taint in there.spec.taints}
    taints = [taint for taint in group.spec.taints if (taint.key, taint.effect) not in has]
    body: dict[str, Any] = {"metadata": {"labels": labels}} if labels else {}
    if taints and node.phase != "Ready":
        body["spec"] = {"taints": [builtins(taint) for taint in (*there.spec.taints, *taints)]}
    if not body:
        return []
    why = Reason("Labelling", f"node {there.name} belongs to group {group.name}")
    return [Patch(Ref.to(NODES, there), body, why)]


# ── afterwards ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _ready(node: VPSieNode, group: NodeGroup | None, seen: Seen) -> NodeDecision:
    there = seen.node_of(node)
    condition = condition_of(node, "Ready")
    if there is None:
        message = f"the Node {node.node_name} is not there"
        missing_since = (
            condition.last_transition_time if condition is not None and condition.status == "False" else None
        )
        if missing_since is None:
            lost = Condition(type="Ready", status="False", reason="NodeMissing", message=message)
            why = Reason("NodeMissing", message)
            fields = {"conditions": conditions_with(node, lost, now=seen.now)}
            return _decision(node, why, node_status(node, fields, why), seen=seen)
        sighting = seen.sighting(node.spec.provider)
        if sighting is not None and machine_in(sighting, node) is None and sighting.asked_at > missing_since:
            gone = f"{message}, and neither is machine {node.spec.vpsie_instance_id}"
            return _fail(node, group, "MachineGone", gone, seen)
        if seen.now - missing_since > seen.settings.joining_timeout:
            if (halted := halt(seen)) is not None:
                return _decision(node, Reason(halted.code, halted.message), blocker=halted, seen=seen)
            return _fail(node, group, "NodeMissing", f"{message} since {missing_since}", seen)
        return _decision(node, Reason("NodeMissing", message), seen=seen)
    if leaving_taint(there) is not None:
        why = Reason("TaintLeft", f"node {there.name} stays, and a taint of ours was left on it")
        return _decision(node, why, untaint(there, why))
    dressing = _dressed(node, there, group)
    if condition is not None and condition.status == "False":
        back = Condition(type="Ready", status="True", reason="NodeReady", message=f"node {there.name} is there")
        why = Reason("NodeBack", back.message)
        fields = {"conditions": conditions_with(node, back, now=seen.now)}
        return _decision(node, why, node_status(node, fields, why))
    return _decision(node, Reason("Ready", f"node {there.name} serves"), *dressing)


def _failed(node: VPSieNode, group: NodeGroup | None, seen: Seen) -> NodeDecision:
    if group is not None and not accounted(node, group):
        return _decision(node, Reason("Failed", "its group has yet to note the failure"), seen=seen)
    why = Reason("Replacing", f"a node that failed is removed: {node.status.last_error}")
    condition = Condition(type="Draining", status="True", reason="Failed", message=why.message)
    fields = {
        "phase": "Terminating",
        "terminatingAt": stamp(seen.now),
        "conditions": conditions_with(node, condition, now=seen.now),
    }
    return _decision(node, why, node_status(node, fields, why))


def _fail(node: VPSieNode, group: NodeGroup | None, code: str, message: str, seen: Seen) -> NodeDecision:
    return _decision(node, Reason(code, message), failed(node, group, code, message, seen.now))


def _blind(node: VPSieNode, seen: Seen) -> NodeDecision:
    trouble = seen.sightings.trouble(node.spec.provider)
    message = f"nothing recent is known of the machines of {node.spec.provider}: {trouble}"
    return _decision(
        node, Reason("ProviderUnknown", message), blocker=Blocker("ProviderUnknown", message), seen=seen
    )  # fmt: skip


def _decision(
    node: VPSieNode, why: Reason, *actions: Action, blocker: Blocker | None = None, seen: Seen | None = None
) -> NodeDecision:
    again = seen.settings.retry_interval if seen is not None else None
    blockers = (blocker,) if blocker is not None else ()
    return NodeDecision(reason=why, actions=actions, blockers=blockers, requeue_after=again, phase=node.phase)
