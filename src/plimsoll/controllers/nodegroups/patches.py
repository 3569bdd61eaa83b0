"""Patches of VPSieNodes, NodeGroups and Nodes. Each carries the UID and resourceVersion on which it was based."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from plimsoll.controllers.nodegroups.types import NODE_GROUPS, VPSIE_NODES, NodeGroup, VPSieNode, find_condition
from plimsoll.kube.codec import builtins
from plimsoll.kube.types.core import Node, Taint
from plimsoll.kube.types.meta import Condition
from plimsoll.kube.types.resources import NODES
from plimsoll.runtime.decision import Event, Patch, Reason, Ref

# A taint of our own, never `spec.unschedulable`: cordoning belongs to people and other tools.
DRAIN_TAINT = "plimsoll.dev/leaving"


def status_time(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def node_status(node: VPSieNode, fields: Mapping[str, Any], why: Reason, event: Event | None = None) -> Patch:
    status = {**fields, "observedGeneration": node.metadata.generation}
    return Patch(Ref.to(VPSIE_NODES, node), {"status": status}, why, subresource="status", event=event)


def group_status(group: NodeGroup, fields: Mapping[str, Any], why: Reason, event: Event | None = None) -> Patch:
    return Patch(Ref.to(NODE_GROUPS, group), {"status": dict(fields)}, why, subresource="status", event=event)


def finalizers(node: VPSieNode, kept: Sequence[str], why: Reason) -> Patch:
    return Patch(Ref.to(VPSIE_NODES, node), {"metadata": {"finalizers": list(kept)}}, why)


def merge_conditions(obj: NodeGroup | VPSieNode, *changed: Condition, now: datetime) -> list[Any]:
    """All conditions of an object with `changed` merged in. A condition whose status is unchanged keeps its transition time."""
    new = {condition.type: condition for condition in changed}
    kept = [condition for condition in obj.status.conditions if condition.type not in new]
    found: list[Any] = [builtins(condition) for condition in kept]
    for condition in changed:
        before = find_condition(obj, condition.type)
        same = before is not None and before.status == condition.status and before.last_transition_time is not None
        since = before.last_transition_time if same and before is not None else now
        plain = {"type": condition.type, "status": condition.status, "reason": condition.reason or "Unknown"}
        found.append({**plain, "message": condition.message, "lastTransitionTime": status_time(since or now)})
    return found


def drain_taint(node: Node) -> Taint | None:
    return next((taint for taint in node.spec.taints if taint.key == DRAIN_TAINT), None)


def taint(node: Node, now: datetime, why: Reason) -> Patch:
    ours = {
        "key": DRAIN_TAINT,
        "effect": "NoSchedule",
        "timeAdded": now.isoformat(timespec="seconds").replace("+00:00", "Z"),
    }
    others = [builtins(one) for one in node.spec.taints if one.key != DRAIN_TAINT]
    return Patch(Ref.to(NODES, node), {"spec": {"taints": [*others, ours]}}, why)


def untaint(node: Node, why: Reason) -> Patch:
    others = [builtins(one) for one in node.spec.taints if one.key != DRAIN_TAINT]
    return Patch(Ref.to(NODES, node), {"spec": {"taints": others or None}}, why)
