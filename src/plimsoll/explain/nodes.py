"""Explain a node: its utilization, whether it can be removed, and where its pods would run."""

from __future__ import annotations

from datetime import datetime

from plimsoll.controllers.placement.capacity_class import ClassRules
from plimsoll.disruption.interrupted_nodes import leaving
from plimsoll.explain.records import NodeExplanation, PodMove, ResourceUsage
from plimsoll.kube.cache.store import View
from plimsoll.kube.labels import ZONE
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.resources import BY_NODE, NODES, PODS, Key
from plimsoll.runtime.decision import Reason
from plimsoll.scheduling.pod_requests import allocatable, format_amount, requests_of
from plimsoll.scheduling.removal import removable
from plimsoll.scheduling.snapshot_cache import SnapshotCache

_SHOWN_FIRST = ("cpu", "memory", "pods")


def explain_node(key: Key, view: View, now: datetime, rules: ClassRules) -> NodeExplanation:
    """Raises LookupError if the node does not exist."""
    node = view[NODES].get("", key.name)
    if node is None:
        raise LookupError(f"there is no node {key.name}")
    pods = {pod.uid: pod for pod in view[PODS].by(BY_NODE, node.name) if not pod.finished}
    (removal,) = removable(SnapshotCache().of(view), [node.name])
    plan = removal.plan
    return NodeExplanation(
        kind="Node",
        name=node.name,
        as_of=now,
        capacity_class=rules.of_labels(node.labels).value,
        zone=node.labels.get(ZONE, ""),
        ready=node.ready,
        leaving=leaving(node) or "",
        usage=_usage(node, list(pods.values())),
        removable=plan is not None,
        why_not=Reason(removal.reason.rule.value, removal.reason.message) if removal.reason is not None else None,
        moves=tuple(PodMove(_title(pods[uid]), to) for uid, to in (plan or {}).items()),
        staying=tuple(_title(pod) for uid, pod in pods.items() if plan is not None and uid not in plan),
    )


def _title(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


def _usage(node: Node, pods: list[Pod]) -> tuple[ResourceUsage, ...]:
    room = allocatable(node.status.allocatable)
    asked: dict[str, int] = dict.fromkeys(room, 0)
    for pod in pods:
        for resource, amount in requests_of(pod).items():
            asked[resource] = asked.get(resource, 0) + amount
    order = sorted(room, key=lambda name: (_SHOWN_FIRST.index(name) if name in _SHOWN_FIRST else 9, name))
    return tuple(
        ResourceUsage(
            name,
            format_amount(name, asked[name]),
            format_amount(name, room[name]),
            round(100 * asked[name] / room[name], 1) if room[name] else 0.0,
        )
        for name in order
        if room[name] or asked[name]
    )
