"""The transaction that orders one machine: record the order, send it, record the result; started by `lifecycle`.

If a reply is lost, the next transaction orders under the same key and gets the same machine.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.controllers.nodegroups.patches import merge_conditions, node_status, status_time
from plimsoll.controllers.nodegroups.types import NODE_GROUPS, VPSIE_NODES, NodeGroup, VPSieNode
from plimsoll.kube.types.meta import Condition
from plimsoll.providers.protocol import MachineRequest
from plimsoll.runtime.decision import Counter, CreateMachine, Event, Patch, Reason, Ref
from plimsoll.runtime.transaction import (
    ConcurrentWrites,
    End,
    TransactionReply,
    TransactionRequest,
    TransactionStarted,
    WritesDone,
)

# Errors of the provider that a repetition does not change.
FINAL_ERRORS = ("QuotaExceeded", "OfferingUnavailable", "Unauthorised", "UnknownProvider")


class MachineOrder(Struct, frozen=True):
    node: VPSieNode
    group: NodeGroup
    request: MachineRequest
    step: Literal["start", "announced", "sent", "recorded"] = "start"


def order_step(order: MachineOrder, reply: TransactionReply) -> tuple[MachineOrder, TransactionRequest]:
    match order.step, reply:
        case "start", TransactionStarted():
            if order.node.phase != "Pending":
                # It was ordered before: a provider whose lists lag must look for the machine before it orders another.
                again = replace(order.request, last_asked_at=order.node.status.created_at)
                return _send(replace(order, request=again))
            why = Reason("Provisioning", f"order a machine of offering {order.request.offering}")
            waiting = Condition(type="Ready", status="False", reason="Provisioning", message=why.message)
            fields = {
                "phase": "Provisioning",
                "createdAt": status_time(reply.moment.now),
                "conditions": merge_conditions(order.node, waiting, now=reply.moment.now),
            }
            return replace(order, step="announced"), ConcurrentWrites((node_status(order.node, fields, why),))
        case "announced", WritesDone(answers=(answer,)):
            if answer.status != "done" or not isinstance(answer.item, VPSieNode):
                return order, End(answer.status, answer.detail)
            return _send(replace(order, node=answer.item))
        case "sent", WritesDone(answers=(answer,)):
            if answer.status == "done" and answer.machine is not None:
                why = Reason("Ordered", f"the provider created machine {answer.machine.id}")
                written = order.node.spec.instance_id_to_write(answer.machine.id)
                patch = Patch(Ref.to(VPSIE_NODES, order.node), {"spec": {"vpsieInstanceID": written}}, why)
                return replace(order, step="recorded"), ConcurrentWrites((patch,))
            if answer.code in FINAL_ERRORS:
                patch = failure_patch(order.node, order.group, answer.code, answer.detail, reply.moment.now)
                return replace(order, step="recorded"), ConcurrentWrites((patch,))
            return order, End(answer.status, answer.detail)
        case "recorded", WritesDone(answers=(answer,)):
            return order, End(answer.status, answer.detail)
        case _:
            return order, End("failed", f"unexpected reply {type(reply).__name__}")


def _send(order: MachineOrder) -> tuple[MachineOrder, TransactionRequest]:
    spec = order.node.spec
    why = Reason("Ordering", f"order a machine of offering {order.request.offering} for {order.node.name}")
    ask = CreateMachine(Ref.to(VPSIE_NODES, order.node), spec.provider, order.request, why)
    return replace(order, step="sent"), ConcurrentWrites((ask,))


def failure_patch(node: VPSieNode, group: NodeGroup | None, code: str, message: str, now: datetime) -> Patch:
    """Mark a VPSieNode as failed, with an event on its group."""
    why = Reason(code, message)
    condition = Condition(type="Failed", status="True", reason=code, message=message)
    unready = Condition(type="Ready", status="False", reason=code, message=message)
    conditions = merge_conditions(node, condition, unready, now=now)
    fields = {"phase": "Failed", "lastError": message, "conditions": conditions}
    event = None
    if group is not None:
        labels = {"nodegroup": group.name, "namespace": group.namespace}
        counts = (Counter("vpsie_autoscaler_scale_up_failed_total", {**labels, "reason": code}),)
        text = f"node {node.name} (offering {node.spec.instance_type}) failed: {message}"
        event = Event(Ref.to(NODE_GROUPS, group), "ScaleUpFailed", text, "Warning", counts=counts)
    return node_status(node, fields, why, event)
