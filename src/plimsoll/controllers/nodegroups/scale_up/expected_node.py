"""Which node a pod that waits is counted on, and how far that one has come."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from plimsoll.controllers.nodegroups.scale_up.question import ScaleUp
from plimsoll.controllers.nodegroups.types import BY_NODE_NAME, BY_PHASE, VPSIE_NODES, VPSieNode
from plimsoll.kube.cache.store import View

ON_THEIR_WAY = ("Joining", "Provisioned", "Provisioning", "Pending")  # phases, the last before readiness first


class Awaited(Struct, frozen=True, rename="camel"):
    """A node that is not ready yet. Without a name it is not ordered yet either; what holds it up is said of its group."""

    group: str  # namespace/name
    node: str = ""
    phase: str = ""
    ordered_at: datetime | None = None

    def sentence(self, now: datetime) -> str:
        if not self.node:
            return f"a new node of group {self.group}, which is not ordered yet"
        ordered = f", ordered {_span(now - self.ordered_at)} ago" if self.ordered_at is not None else ""
        return f"node {self.node} of group {self.group}{ordered}, phase {self.phase}"


def awaited_by(pod: str, plan: ScaleUp, view: View) -> Awaited | None:
    """`pod`: namespace/name. None: no group helps it, it is counted on a node that is ready, or nobody has packed it yet."""
    place = plan.places.get(pod, "")
    for member in view[VPSIE_NODES].by(BY_NODE_NAME, place):
        if member.phase in ON_THEIR_WAY and not member.leaving:
            return _awaited(member)
    group = plan.growing.get(pod, "")
    return Awaited(group) if group else None


def nodes_on_their_way(view: View) -> tuple[Awaited, ...]:
    """Those that have come furthest first."""
    members = [one for phase in ON_THEIR_WAY for one in view[VPSIE_NODES].by(BY_PHASE, phase) if not one.leaving]
    return tuple(map(_awaited, members))


def _awaited(member: VPSieNode) -> Awaited:
    ordered_at = member.status.created_at or member.metadata.creation_timestamp
    return Awaited(member.group, member.node_name, member.phase, ordered_at)


def _span(passed: timedelta) -> str:
    seconds = max(0, round(passed.total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
