"""The conversation that gives a machine back: look once more at what is really there, and only then let it go.

Nothing here relies on the view. That there is no way back is written down first; then the node is read, it must be ours and carry our
taint; then its pods are listed, after the taint was seen: a pod that slipped in before it is among them. If anything speaks against it,
what was written down is taken back: the provider was not asked.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.controllers.nodegroups.group_state import must_move
from plimsoll.controllers.nodegroups.holders import Holders
from plimsoll.controllers.nodegroups.patches import leaving_taint, node_status, stamp
from plimsoll.controllers.nodegroups.types import VPSIE_NODE, VPSIE_NODES, VPSieNode
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.resources import NODES, PODS
from plimsoll.runtime.decision import Blocker, DeleteMachine, Reason, Ref
from plimsoll.runtime.transaction import (
    Answered,
    End,
    Found,
    Get,
    ListAll,
    Listed,
    Opened,
    Reply,
    Request,
    Together,
    Unread,
)


class GivingBack(Struct, frozen=True):
    node: VPSieNode
    machine_id: str
    why: Reason
    holders: Holders | None = None
    only_if_unready: bool = False  # it was judged as a node that serves nobody
    announced: bool = False  # in this very conversation: only then is it certain that the provider was not asked before
    objection: End | None = None
    step: Literal["start", "announced", "node", "pods", "holders", "asked", "recorded", "withdrawn"] = "start"


def step(state: GivingBack, reply: Reply) -> tuple[GivingBack, Request]:
    if isinstance(reply, Unread):
        return _withdraw(state, End("failed", reply.detail))
    name = state.node.node_name
    match state.step, reply:
        case "start", Opened():
            if state.node.phase == "Deleting":
                return replace(state, step="node"), Get(NODES, "", name)
            return replace(state, step="announced"), Together(
                (node_status(state.node, {"phase": "Deleting"}, state.why),)
            )
        case "announced", Answered(answers=(answer,)):
            if answer.status != "done" or not isinstance(answer.item, VPSieNode):
                return state, End(answer.status, answer.detail)
            return replace(state, node=answer.item, announced=True, step="node"), Get(NODES, "", name)
        case "node", Found(item=None):
            return _holders(state)
        case "node", Found(item=Node() as there):
            objection = _objection(state, there)
            if objection is not None:
                return _withdraw(state, objection)
            return replace(state, step="pods"), ListAll(PODS, field_selector=f"spec.nodeName={name}")
        case "pods", Listed():
            left = must_move(pod for pod in reply.items if isinstance(pod, Pod))
            if left:
                return _withdraw(state, End("conflict", f"pod {left[0].namespace}/{left[0].name} is on node {name}"))
            return _holders(state)
        case "holders", Listed():
            holders = state.holders
            if holders is not None and (holder := holders.among(reply.items, name)) is not None:
                message = f"{holders.title(holder)} holds, or is about to hold, drives on node {name}"
                return _withdraw(state, End("refused", message, Blocker("AllocationOnNode", message)))
            return _give_back(state)
        case "asked", Answered(answers=(answer,)):
            if answer.status != "done":
                blocker = Blocker(answer.code, answer.detail) if answer.code else None
                return state, End(answer.status, answer.detail, blocker)
            patch = node_status(state.node, {"deletedAt": stamp(reply.moment.now)}, state.why)
            return replace(state, step="recorded"), Together((patch,))
        case "recorded", Answered(answers=(answer,)):
            return state, End(answer.status, answer.detail)
        case "withdrawn", Answered():
            return state, state.objection or End("conflict")
        case _:
            return state, End("failed", f"an answer that was not expected: {type(reply).__name__}")


def _withdraw(state: GivingBack, objection: End) -> tuple[GivingBack, Request]:
    if not state.announced:
        return state, objection
    back = node_status(state.node, {"phase": "Terminating"}, Reason("NotYet", objection.detail))
    return replace(state, objection=objection, step="withdrawn"), Together((back,))


def _objection(state: GivingBack, there: Node) -> End | None:
    label, machine = there.labels.get(VPSIE_NODE), there.spec.provider_id
    if label != state.node.name and not (machine and machine.endswith(state.machine_id)):
        message = f"node {there.name} is not (or no longer) on machine {state.machine_id}"
        return End("refused", message, Blocker("AnotherMachine", message))
    if state.only_if_unready and there.ready:
        return End("conflict", f"node {there.name} is ready again")
    if leaving_taint(there) is None:
        return End("conflict", f"node {there.name} has lost our taint")
    if there.status.volumes_attached:
        message = f"{len(there.status.volumes_attached)} volumes are still attached to node {there.name}"
        return End("refused", message, Blocker("VolumesAttached", message))
    return None


def _holders(state: GivingBack) -> tuple[GivingBack, Request]:
    if state.holders is not None:
        return replace(state, step="holders"), ListAll(state.holders.resource)
    return _give_back(state)


def _give_back(state: GivingBack) -> tuple[GivingBack, Request]:
    target = Ref.to(VPSIE_NODES, state.node)
    act = DeleteMachine(target, state.node.spec.provider, state.machine_id, state.why)
    return replace(state, step="asked"), Together((act,))
