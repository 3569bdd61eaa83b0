"""The transaction that deletes a machine, after a last live check that its node is really empty; started by `drain`.

Nothing here relies on the cache. The phase Deleting is written first. Then the Node is read live: it must be the machine's and
carry our taint. Then its pods are listed, after the taint was seen, so that a pod that was bound before the taint is among them. If
anything blocks the deletion, the phase is written back: the provider was not called.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.controllers.nodegroups.group_state import pods_to_move
from plimsoll.controllers.nodegroups.holders import Holders
from plimsoll.controllers.nodegroups.patches import drain_taint, node_status, status_time
from plimsoll.controllers.nodegroups.types import VPSIE_NODE, VPSIE_NODES, VPSieNode
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.resources import NODES, PODS
from plimsoll.runtime.decision import Blocker, DeleteMachine, Reason, Ref
from plimsoll.runtime.transaction import (
    ConcurrentWrites,
    End,
    Found,
    Get,
    ListAll,
    Listed,
    ReadFailed,
    TransactionReply,
    TransactionRequest,
    TransactionStarted,
    WritesDone,
)


class Termination(Struct, frozen=True):
    node: VPSieNode
    machine_id: str
    why: Reason
    holders: Holders | None = None
    only_if_unready: bool = False  # the node was chosen because it is not ready
    announced: bool = (
        False  # this transaction wrote the phase: only then is it certain that the provider was not called before
    )
    result: End | None = None
    step: Literal["start", "announced", "node", "pods", "holders", "asked", "recorded", "withdrawn"] = "start"


def termination_step(state: Termination, reply: TransactionReply) -> tuple[Termination, TransactionRequest]:
    if isinstance(reply, ReadFailed):
        return _withdraw(state, End("failed", reply.detail))
    name = state.node.node_name
    match state.step, reply:
        case "start", TransactionStarted():
            if state.node.phase == "Deleting":
                return replace(state, step="node"), Get(NODES, "", name)
            return replace(state, step="announced"), ConcurrentWrites(
                (node_status(state.node, {"phase": "Deleting"}, state.why),)
            )
        case "announced", WritesDone(answers=(answer,)):
            if answer.status != "done" or not isinstance(answer.item, VPSieNode):
                return state, End(answer.status, answer.detail)
            return replace(state, node=answer.item, announced=True, step="node"), Get(NODES, "", name)
        case "node", Found(item=None):
            return _holders(state)
        case "node", Found(item=Node() as there):
            result = _blocked(state, there)
            if result is not None:
                return _withdraw(state, result)
            return replace(state, step="pods"), ListAll(PODS, field_selector=f"spec.nodeName={name}")
        case "pods", Listed():
            left = pods_to_move(pod for pod in reply.items if isinstance(pod, Pod))
            if left:
                return _withdraw(state, End("conflict", f"pod {left[0].namespace}/{left[0].name} is on node {name}"))
            return _holders(state)
        case "holders", Listed():
            holders = state.holders
            if holders is not None and (holder := holders.among(reply.items, name)) is not None:
                message = f"{holders.title(holder)} holds drives or ports on node {name}, or is about to"
                return _withdraw(state, End("refused", message, Blocker("AllocationOnNode", message)))
            return _delete(state)
        case "asked", WritesDone(answers=(answer,)):
            if answer.status != "done":
                blocker = Blocker(answer.code, answer.detail) if answer.code else None
                return state, End(answer.status, answer.detail, blocker)
            patch = node_status(state.node, {"deletedAt": status_time(reply.moment.now)}, state.why)
            return replace(state, step="recorded"), ConcurrentWrites((patch,))
        case "recorded", WritesDone(answers=(answer,)):
            return state, End(answer.status, answer.detail)
        case "withdrawn", WritesDone():
            return state, state.result or End("conflict")
        case _:
            return state, End("failed", f"unexpected reply {type(reply).__name__}")


def _withdraw(state: Termination, result: End) -> tuple[Termination, TransactionRequest]:
    if not state.announced:
        return state, result
    back = node_status(state.node, {"phase": "Terminating"}, Reason("NotYet", result.detail))
    return replace(state, result=result, step="withdrawn"), ConcurrentWrites((back,))


def _blocked(state: Termination, there: Node) -> End | None:
    label, machine = there.labels.get(VPSIE_NODE), there.spec.provider_id
    if label != state.node.name and not (machine and machine.endswith(state.machine_id)):
        message = f"node {there.name} does not run on machine {state.machine_id}"
        return End("refused", message, Blocker("AnotherMachine", message))
    if state.only_if_unready and there.ready:
        return End("conflict", f"node {there.name} is ready again")
    if drain_taint(there) is None:
        return End("conflict", f"node {there.name} no longer has our taint")
    if there.status.volumes_attached:
        message = f"{len(there.status.volumes_attached)} volumes are still attached to node {there.name}"
        return End("refused", message, Blocker("VolumesAttached", message))
    return None


def _holders(state: Termination) -> tuple[Termination, TransactionRequest]:
    if state.holders is not None:
        return replace(state, step="holders"), ListAll(state.holders.resource)
    return _delete(state)


def _delete(state: Termination) -> tuple[Termination, TransactionRequest]:
    target = Ref.to(VPSIE_NODES, state.node)
    act = DeleteMachine(target, state.node.spec.provider, state.machine_id, state.why)
    return replace(state, step="asked"), ConcurrentWrites((act,))
