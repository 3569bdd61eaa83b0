"""Other installations that look after the same group: two would buy a node each for the same pods."""

from __future__ import annotations

from datetime import datetime, timedelta

from plimsoll.controllers.nodegroups.group_state import GroupSeen, Seen
from plimsoll.controllers.nodegroups.types import NODE_GROUPS
from plimsoll.runtime.decision import Blocker, Problem, Ref

# What an installation ordered before this proves nothing: it may be gone, and its successor has another namespace.
LATELY = timedelta(minutes=10)


def left_to_another(one: GroupSeen, seen: Seen) -> Blocker | None:
    """Who has ordered nodes lately goes on; of several that have, the first by name."""
    home, others = seen.settings.namespace, _others(one, seen)
    if not others or (_is_lately(one.its.ordered_by.get(home), seen) and home < min(others)):
        return None
    first = min(others)
    message = f"group {one.key}: the installation in namespace {first} has ordered nodes for it lately; it is left to that one"
    return Blocker("AnotherInstallation", message, until=max(others.values()) + LATELY)


def told(one: GroupSeen, seen: Seen) -> Problem | None:
    others = _others(one, seen)
    if not others:
        return None
    names, home = ", ".join(sorted(others)), seen.settings.namespace
    does = "leaves the group alone meanwhile" if left_to_another(one, seen) is not None else "goes on"
    message = (
        f"NodeGroup {one.key}: another installation (in namespace {names}) orders nodes for it, too; the one in {home} {does}. "
        "Node groups belong to one installation: take nodegroups out of controllers.enabled of the others."
    )
    return Problem(Ref.to(NODE_GROUPS, one.group), "AnotherInstallation", message)


def _others(one: GroupSeen, seen: Seen) -> dict[str, datetime]:
    found = one.its.ordered_by.items()
    return {by: at for by, at in found if by != seen.settings.namespace and _is_lately(at, seen)}


def _is_lately(moment: datetime | None, seen: Seen) -> bool:
    return moment is not None and moment > seen.now - LATELY
