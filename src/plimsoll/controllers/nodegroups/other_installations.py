"""Other installations of the operator that manage the same group. Both would buy a node each for the same pods."""

from __future__ import annotations

from datetime import datetime, timedelta

from plimsoll.controllers.nodegroups.group_state import DecisionContext, GroupState
from plimsoll.controllers.nodegroups.types import NODE_GROUPS
from plimsoll.runtime.decision import Blocker, Problem, Ref

# An older order proves nothing: the installation may be gone, or its successor may run in another namespace.
RECENT = timedelta(minutes=10)


def left_to_other_installation(group: GroupState, context: DecisionContext) -> Blocker | None:
    """Blocks a group that another installation manages. Of several that ordered nodes recently, the first by name continues."""
    own, others = context.settings.namespace, _others(group, context)
    if not others or (_is_recent(group.members.ordered_by.get(own), context) and own < min(others)):
        return None
    first = min(others)
    message = (
        f"group {group.key} is managed by the installation in namespace {first}, which ordered nodes for it within the last "
        f"{RECENT.total_seconds() / 60:.0f} minutes"
    )
    return Blocker("AnotherInstallation", message, until=max(others.values()) + RECENT)


def other_installation_problem(group: GroupState, context: DecisionContext) -> Problem | None:
    others = _others(group, context)
    if not others:
        return None
    names, own = ", ".join(sorted(others)), context.settings.namespace
    does = "leaves the group alone" if left_to_other_installation(group, context) is not None else "continues"
    message = (
        f"NodeGroup {group.key}: the installation in namespace {names} orders nodes for the same group; the one in {own} {does}. "
        "A group must be managed by one installation: remove nodegroups from controllers.enabled of the others."
    )
    return Problem(Ref.to(NODE_GROUPS, group.group), "AnotherInstallation", message)


def _others(group: GroupState, context: DecisionContext) -> dict[str, datetime]:
    found = group.members.ordered_by.items()
    return {by: at for by, at in found if by != context.settings.namespace and _is_recent(at, context)}


def _is_recent(moment: datetime | None, context: DecisionContext) -> bool:
    return moment is not None and moment > context.now - RECENT
