"""The life of one VPSieNode until its node is ready, and what happens if it never is. `controller` calls `decide_lifecycle`.

Pending → Provisioning → Provisioned → Joining → Ready; Failed if the machine is refused, fails or takes too long. A failed VPSieNode
waits until its group's status has recorded the failure (`backoff`), then it is removed (`drain`).
"""

from __future__ import annotations

from typing import Any

from plimsoll.controllers.nodegroups.backoff import failure_recorded
from plimsoll.controllers.nodegroups.group_state import DecisionContext, find_machine
from plimsoll.controllers.nodegroups.lifecycle.order import MachineOrder, failure_patch, order_step
from plimsoll.controllers.nodegroups.members import oldest_first
from plimsoll.controllers.nodegroups.node_template import member_labels
from plimsoll.controllers.nodegroups.patches import (
    drain_taint,
    finalizers,
    merge_conditions,
    node_status,
    status_time,
    untaint,
)
from plimsoll.controllers.nodegroups.scale_down.unready import halt
from plimsoll.controllers.nodegroups.types import FINALIZER, PHASES, VPSIE_NODES, NodeGroup, VPSieNode, find_condition
from plimsoll.controllers.nodegroups.usable import unusable_because
from plimsoll.kube.codec import builtins
from plimsoll.kube.types.core import Node
from plimsoll.kube.types.meta import Condition
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
    """The next step for one VPSieNode."""

    phase: str = ""


def decide_lifecycle(node: VPSieNode, context: DecisionContext) -> NodeDecision:
    """The next step for a VPSieNode that is not being removed."""
    if FINALIZER not in node.metadata.finalizers:
        why = Reason("Adopting", "the object must exist as long as its machine: add the finalizer")
        return _decision(node, why, finalizers(node, (*node.metadata.finalizers, FINALIZER), why))
    group = context.group_of(node)
    match node.phase:
        case "Pending" | "Provisioning" if not node.spec.vpsie_instance_id:
            return _order(node, group, context)
        case "Pending" | "Provisioning":
            return _provisioning(node, group, context)
        case "Provisioned" | "Joining":
            return _joining(node, group, context)
        case "Ready":
            return _ready(node, group, context)
        case "Failed":
            return _failed(node, group, context)
        case _:
            return _decision(
                node, Reason("UnknownPhase", f"phase {node.phase} is unknown; expected one of " + ", ".join(PHASES))
            )


# ── order ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _order(node: VPSieNode, group: NodeGroup | None, context: DecisionContext) -> NodeDecision:
    inventory = context.inventory(node.spec.provider)
    if group is None or group.terminating:
        why = Reason("NoGroup", f"NodeGroup {node.spec.node_group_name} does not exist")
        return _decision(node, why, Delete(Ref.to(VPSIE_NODES, node), why))
    if inventory is None:
        return _provider_unknown(node, context)
    machine = find_machine(inventory, node)
    if machine is not None:
        why = Reason("Ordered", f"the provider has machine {machine.id} of an earlier order")
        return _decision(
            node,
            why,
            Patch(
                Ref.to(VPSIE_NODES, node),
                {"spec": {"vpsieInstanceID": node.spec.instance_id_to_write(machine.id)}},
                why,
            ),
        )
    ordered_at = node.status.created_at
    if ordered_at is not None and context.now - ordered_at > context.settings.provisioning_timeout:
        message = f"the provider created no machine within {context.settings.provisioning_timeout}"
        return _fail(node, group, "ProvisioningTimeout", message, context)
    if node.phase == "Pending":
        surplus = _surplus(node, group, context)
        if surplus is not None:
            return _decision(node, surplus, Delete(Ref.to(VPSIE_NODES, node), surplus))
    existing = [one for one in inventory.machines.values() if one.group == group_tag(group) and one.state != "deleting"]
    if inventory.capabilities.lists_by_group and len(existing) >= group.spec.max_nodes:
        message = f"provider {node.spec.provider} has {len(existing)} machines of {group.name}; maxNodes is {group.spec.max_nodes}"
        return _decision(
            node, Reason("AtMaxCapacity", message), blocker=Blocker("AtMaxCapacity", message), context=context
        )
    order = MachineOrder(node, group, request_for(node, group))
    why = Reason("Ordering", f"order a machine of offering {node.spec.instance_type} for group {group.name}")
    return _decision(node, why, Transaction(Ref.to(VPSIE_NODES, node), order, order_step, why), context=context)


def _surplus(node: VPSieNode, group: NodeGroup, context: DecisionContext) -> Reason | None:
    """Whether the node exceeds maxNodes, as after a late write of a former leader. It is deleted before it costs anything."""
    remaining = sorted((one for one in context.members(group) if not one.being_removed), key=oldest_first)
    if node in remaining and remaining.index(node) >= group.spec.max_nodes:
        return Reason("Surplus", f"group {group.name} has {len(remaining)} nodes; maxNodes is {group.spec.max_nodes}")
    return None


def group_tag(group: NodeGroup) -> str:
    """The name by which the provider knows the group."""
    return f"{group.namespace}.{group.name}"


def request_for(node: VPSieNode, group: NodeGroup) -> MachineRequest:
    spec = node.spec
    return MachineRequest(
        key=node.uid, name=node.name, group=group_tag(group), offering=spec.instance_type, datacenter=spec.datacenter_id,
        resource_identifier=spec.resource_identifier, kubernetes_version=spec.kubernetes_version, image=spec.os_image_id,
        ssh_keys=spec.ssh_key_ids, project=spec.project, tags=group.spec.tags, notes=group.spec.notes,
        labels=member_labels(group, spec.instance_type, node.name), taints=group.spec.taints,
    )  # fmt: skip


# ── join ─────────────────────────────────────────────────────────────────────────────────────────────


def _provisioning(node: VPSieNode, group: NodeGroup | None, context: DecisionContext) -> NodeDecision:
    inventory = context.inventory(node.spec.provider)
    machine = context.machine_of(node)
    if machine is not None and machine.state == "failed":
        return _fail(node, group, "MachineFailed", machine.message or f"machine {machine.id} failed", context)
    there = context.node_of(node)
    if there is not None:
        # The provider's list may lag or fail; a node that has joined proves more.
        fields = {
            "phase": "Provisioned",
            "provisionedAt": status_time(context.now),
            "nodeName": there.name,
            "hostname": there.name,
        }
        why = Reason("Provisioned", f"node {there.name} has joined")
        return _decision(node, why, node_status(node, fields, why))
    if inventory is None:
        return _provider_unknown(node, context)
    if machine is not None and machine.state == "running":
        name = machine.node_name or machine.name or node.name
        fields = {"phase": "Provisioned", "provisionedAt": status_time(context.now), "nodeName": name, "hostname": name}
        why = Reason("Provisioned", f"machine {machine.id} is running")
        return _decision(node, why, node_status(node, fields, why))
    since = node.status.created_at or node.metadata.creation_timestamp or context.now
    limit = context.settings.provisioning_timeout
    if context.now - since > limit:
        where = "is still being created" if machine is not None else "does not exist any more"
        return _fail(
            node, group, "ProvisioningTimeout", f"machine {node.spec.vpsie_instance_id} {where} after {limit}", context
        )
    return _decision(
        node, Reason("Provisioning", f"machine {node.spec.vpsie_instance_id} is being created"), context=context
    )


def _joining(node: VPSieNode, group: NodeGroup | None, context: DecisionContext) -> NodeDecision:
    there = context.node_of(node)
    since = node.status.provisioned_at or node.status.created_at or context.now
    unusable = unusable_because(there, group, context.offering_of(node), context.settings) if there is not None else ""
    limit = context.settings.joining_timeout
    late = context.now - since > limit
    if there is not None and (not unusable or (late and there.ready)):
        began = node.status.created_at or node.metadata.creation_timestamp or context.now
        fields: dict[str, Any] = {
            "phase": "Ready",
            "readyAt": status_time(context.now),
            "nodeName": there.name,
            "lastError": None,
        }
        fields["joinedAt"] = status_time(node.status.joined_at or context.now)
        text = f"node {there.name} has joined and is ready"
        if unusable:
            text += f", but {unusable} after {limit}: from now on it counts as it is; check the agents on the node"
        code = "NotUsable" if unusable else "NodeReady"
        condition = Condition(type="Ready", status="True", reason=code, message=text)
        fields["conditions"] = merge_conditions(node, condition, now=context.now)
        labels = {"nodegroup": node.spec.node_group_name, "namespace": node.namespace}
        took = Histogram(
            "vpsie_autoscaler_node_provisioning_duration_seconds", (context.now - began).total_seconds(), labels
        )
        why = Reason("NotUsable" if unusable else "Ready", text)
        event = Event(Ref.to(VPSIE_NODES, node), code, text, "Warning" if unusable else "Normal", counts=(took,))
        return _decision(node, why, *_label_and_taint(node, there, group), node_status(node, fields, why, event))
    if late:
        what = "has not become ready" if there is not None else "has not joined"
        return _fail(node, group, "JoiningTimeout", f"node {node.node_name} {what} within {limit}", context)
    if there is not None and (node.phase != "Joining" or node.node_name != there.name):
        why = Reason("Joining", f"node {there.name} has joined and is not usable yet: {unusable}")
        joined_at = status_time(node.status.joined_at or context.now)
        fields = {"phase": "Joining", "joinedAt": joined_at, "nodeName": there.name, "hostname": there.name}
        return _decision(node, why, *_label_and_taint(node, there, group), node_status(node, fields, why))
    waits = (
        f"node {there.name} is not usable yet: {unusable}" if there is not None else f"wait for node {node.node_name}"
    )
    return _decision(node, Reason("Joining", waits), context=context)


def _label_and_taint(node: VPSieNode, there: Node, group: NodeGroup | None) -> list[Action]:
    """Add the group's labels where they are missing, and its taints until the node is ready; later taints belong to people."""
    if group is None:
        return []
    wanted = member_labels(group, node.spec.instance_type, node.name)
    labels = {key: value for key, value in wanted.items() if there.labels.get(key) != value}
    has = {(taint.key, taint.effect) for taint in there.spec.taints}
    taints = [taint for taint in group.spec.taints if (taint.key, taint.effect) not in has]
    body: dict[str, Any] = {"metadata": {"labels": labels}} if labels else {}
    if taints and node.phase != "Ready":
        body["spec"] = {"taints": [builtins(taint) for taint in (*there.spec.taints, *taints)]}
    if not body:
        return []
    why = Reason("Labelling", f"add the labels and taints of group {group.name} to node {there.name}")
    return [Patch(Ref.to(NODES, there), body, why)]


# ── ready and failed ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _ready(node: VPSieNode, group: NodeGroup | None, context: DecisionContext) -> NodeDecision:
    there = context.node_of(node)
    condition = find_condition(node, "Ready")
    if there is None:
        message = f"Node {node.node_name} does not exist"
        missing_since = (
            condition.last_transition_time if condition is not None and condition.status == "False" else None
        )
        if missing_since is None:
            lost = Condition(type="Ready", status="False", reason="NodeMissing", message=message)
            why = Reason("NodeMissing", message)
            fields = {"conditions": merge_conditions(node, lost, now=context.now)}
            return _decision(node, why, node_status(node, fields, why), context=context)
        inventory = context.inventory(node.spec.provider)
        if inventory is not None and find_machine(inventory, node) is None and inventory.requested_at > missing_since:
            gone = f"{message}, and neither does machine {node.spec.vpsie_instance_id}"
            return _fail(node, group, "MachineGone", gone, context)
        if context.now - missing_since > context.settings.joining_timeout:
            if (halted := halt(context)) is not None:
                return _decision(node, Reason(halted.code, halted.message), blocker=halted, context=context)
            return _fail(node, group, "NodeMissing", f"{message} since {missing_since}", context)
        return _decision(node, Reason("NodeMissing", message), context=context)
    if drain_taint(there) is not None:
        why = Reason("TaintLeft", f"node {there.name} is not being removed: remove our left-over taint")
        return _decision(node, why, untaint(there, why))
    labelling = _label_and_taint(node, there, group)
    if node.node_name != there.name:
        why = Reason("Renamed", f"machine {node.spec.vpsie_instance_id} is now node {there.name}")
        renamed = {"nodeName": there.name, "hostname": there.name}
        return _decision(node, why, node_status(node, renamed, why))
    if node.status.first_pod_at is None and context.pods_to_move_from(there.name):
        why = Reason("Serving", f"node {there.name} runs its first pod")
        return _decision(node, why, *labelling, node_status(node, {"firstPodAt": status_time(context.now)}, why))
    if condition is not None and condition.status == "False":
        back = Condition(type="Ready", status="True", reason="NodeReady", message=f"Node {there.name} exists again")
        why = Reason("NodeBack", back.message)
        fields = {"conditions": merge_conditions(node, back, now=context.now)}
        return _decision(node, why, node_status(node, fields, why))
    return _decision(node, Reason("Ready", f"node {there.name} is ready"), *labelling)


def _failed(node: VPSieNode, group: NodeGroup | None, context: DecisionContext) -> NodeDecision:
    if group is not None and not failure_recorded(node, group):
        return _decision(
            node, Reason("Failed", "wait until the group's status has recorded the failure"), context=context
        )
    why = Reason("Replacing", f"remove the failed node: {node.status.last_error}")
    condition = Condition(type="Draining", status="True", reason="Failed", message=why.message)
    fields = {
        "phase": "Terminating",
        "terminatingAt": status_time(context.now),
        "conditions": merge_conditions(node, condition, now=context.now),
    }
    return _decision(node, why, node_status(node, fields, why))


def _fail(node: VPSieNode, group: NodeGroup | None, code: str, message: str, context: DecisionContext) -> NodeDecision:
    return _decision(node, Reason(code, message), failure_patch(node, group, code, message, context.now))


def _provider_unknown(node: VPSieNode, context: DecisionContext) -> NodeDecision:
    error = context.inventories.last_error(node.spec.provider)
    message = f"provider {node.spec.provider} cannot be used: {error}"
    return _decision(
        node, Reason("ProviderUnknown", message), blocker=Blocker("ProviderUnknown", message), context=context
    )  # fmt: skip


def _decision(
    node: VPSieNode,
    why: Reason,
    *actions: Action,
    blocker: Blocker | None = None,
    context: DecisionContext | None = None,
) -> NodeDecision:
    again = context.settings.retry_interval if context is not None else None
    blockers = (blocker,) if blocker is not None else ()
    return NodeDecision(reason=why, actions=actions, blockers=blockers, requeue_after=again, phase=node.phase)
