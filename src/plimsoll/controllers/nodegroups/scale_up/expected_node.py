"""The upcoming node that a pending pod is expected on, and its progress; shown by `explain` and the dashboard."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from plimsoll.controllers.nodegroups.scale_up.scale_up import ScaleUpPlan
from plimsoll.controllers.nodegroups.types import BY_NODE_NAME, BY_PHASE, VPSIE_NODES, VPSieNode
from plimsoll.kube.cache.store import View

UPCOMING_PHASES = ("Joining", "Provisioned", "Provisioning", "Pending")  # the last before Ready first


class ExpectedNode(Struct, frozen=True, rename="camel"):
    """A node that is not ready yet. Without a name it is not ordered yet; the blockers of its group say why."""

    group: str  # namespace/name
    node: str = ""
    phase: str = ""
    ordered_at: datetime | None = None

    def sentence(self, now: datetime) -> str:
        if not self.node:
            return f"a new node of group {self.group}, which is not ordered yet"
        ordered = f", ordered {_age(now - self.ordered_at)} ago" if self.ordered_at is not None else ""
        return f"node {self.node} of group {self.group}{ordered}, phase {self.phase}"


def expected_node(pod: str, plan: ScaleUpPlan, view: View) -> ExpectedNode | None:
    """`pod`: namespace/name. None if no group helps it, it fits on a ready node, or it is not part of the plan."""
    place = plan.places.get(pod, "")
    for member in view[VPSIE_NODES].by(BY_NODE_NAME, place):
        if member.phase in UPCOMING_PHASES and not member.being_removed:
            return _of_member(member)
    group = plan.growing.get(pod, "")
    return ExpectedNode(group) if group else None


def provisioning_nodes(view: View) -> tuple[ExpectedNode, ...]:
    """All nodes on order, the most advanced first."""
    members = [
        one for phase in UPCOMING_PHASES for one in view[VPSIE_NODES].by(BY_PHASE, phase) if not one.being_removed
    ]
    return tuple(map(_of_member, members))


def _of_member(member: VPSieNode) -> ExpectedNode:
    ordered_at = member.status.created_at or member.metadata.creation_timestamp
    return ExpectedNode(member.group, member.node_name, member.phase, ordered_at)


def _age(passed: timedelta) -> str:
    seconds = max(0, round(passed.total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
