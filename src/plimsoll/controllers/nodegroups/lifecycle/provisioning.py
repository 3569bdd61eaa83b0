"""The conversation that orders one machine: write down that it is asked for, ask, write down what came of it.

Whatever gets lost on the way, the next one asks under the same key and is given the same machine.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.controllers.nodegroups.patches import conditions_with, node_status, stamp
from plimsoll.controllers.nodegroups.types import NODE_GROUPS, VPSIE_NODES, NodeGroup, VPSieNode
from plimsoll.kube.types.core import Condition
from plimsoll.providers.protocol import MachineRequest
from plimsoll.runtime.decision import Counter, CreateMachine, Event, Patch, Reason, Ref
from plimsoll.runtime.transaction import Answered, End, Opened, Reply, Request, Together

# What the provider says that no repetition changes.
FINAL = ("QuotaExceeded", "OfferingUnavailable", "Unauthorised", "UnknownProvider")


class Order(Struct, frozen=True):
    node: VPSieNode
    group: NodeGroup
    request: MachineRequest
    step: Literal["start", "announced", "asked", "recorded"] = "start"


def step(order: Order, reply: Reply) -> tuple[Order, Request]:
    match order.step, reply:
        case "start", Opened():
            if order.node.phase != "Pending":
                # Asked for before, by whomever: a provider whose lists lag behind should look before it orders another.
                again = replace(order.request, last_asked_at=order.node.status.created_at)
                return _ask(replace(order, request=again))
            why = Reason("Provisioning", f"a machine of offering {order.request.offering} is ordered")
            fields = {"phase": "Provisioning", "createdAt": stamp(reply.moment.now)}
            return replace(order, step="announced"), Together((node_status(order.node, fields, why),))
        case "announced", Answered(answers=(answer,)):
            if answer.status != "done" or not isinstance(answer.item, VPSieNode):
                return order, End(answer.status, answer.detail)
            return _ask(replace(order, node=answer.item))
        case "asked", Answered(answers=(answer,)):
            if answer.status == "done" and answer.machine is not None:
                why = Reason("Ordered", f"the machine is {answer.machine.id}")
                patch = Patch(
                    Ref.to(VPSIE_NODES, order.node), {"spec": {"vpsieInstanceID": answer.machine.id}}, why
                )  # fmt: skip
                return replace(order, step="recorded"), Together((patch,))
            if answer.code in FINAL:
                patch = failed(order.node, order.group, answer.code, answer.detail, reply.moment.now)
                return replace(order, step="recorded"), Together((patch,))
            return order, End(answer.status, answer.detail)
        case "recorded", Answered(answers=(answer,)):
            return order, End(answer.status, answer.detail)
        case _:
            return order, End("failed", f"an answer that was not expected: {type(reply).__name__}")


def _ask(order: Order) -> tuple[Order, Request]:
    spec = order.node.spec
    why = Reason("Ordering", f"a machine of offering {order.request.offering} for {order.node.name}")
    ask = CreateMachine(Ref.to(VPSIE_NODES, order.node), spec.provider, order.request, why)
    return replace(order, step="asked"), Together((ask,))


def failed(node: VPSieNode, group: NodeGroup | None, code: str, message: str, now: datetime) -> Patch:
    """The node will not come, and why."""
    why = Reason(code, message)
    condition = Condition(type="Failed", status="True", reason=code, message=message)
    fields = {"phase": "Failed", "lastError": message, "conditions": conditions_with(node, condition, now=now)}
    event = None
    if group is not None:
        labels = {"nodegroup": group.name, "namespace": group.namespace}
        counts = (Counter("vpsie_autoscaler_scale_up_failed_total", {**labels, "reason": code}),)
        text = f"node {node.name} (offering {node.spec.instance_type}): {message}"
        event = Event(Ref.to(NODE_GROUPS, group), "ScaleUpFailed", text, "Warning", counts=counts)
    return node_status(node, fields, why, event)
