"""The simulation timeline in plain words, for readers who see the operator for the first time. Called by `cluster_view`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from plimsoll.simulate.invariants import TimelineEntry

_DECISION = re.compile(r"(?P<controller>[a-z-]+) (?P<kind>\w+)/(?P<key>\S*): (?P<code>\w+)")
_JOINED, _MANY_JOINED = re.compile(r"node \S+ joined"), re.compile(r"(\d+) nodes joined")
# Codes that are not shown: nothing was done.
_SILENT = {
    "Evicting", "Gone", "InOrder", "NoNodeGone", "NodeGone", "NodeNotFound", "NotEnabled", "Provisioned", "Tainted", "Waiting",
}  # fmt: skip
_SILENT_REASONS = ("nobody waits on node", "no container waits on node", "0 groups")
_FREQUENT = ("updates its deletion order", "is settled")
_RECENT_LINES = 12
_CODES: Mapping[str, str] = {
    "Allocated": "has allocated drives and ports",
    "Blocked": "is blocked",
    "ContainersWaiting": "has containers that wait for drives and ports",
    "Deleting": "is being deleted",
    "Draining": "is being drained",
    "GivingBack": "is being deleted at the provider",
    "Insufficient": "has too few drives",
    "Joining": "joins",
    "MigratingToOnDemand": "moves a pod to on-demand",
    "MigratingToSpot": "moves a pod to spot",
    "NoGroupHelps": "cannot help yet",
    "NodeLeaving": "moves a pod off an interrupted node",
    "Ordering": "is ordered",
    "Provisioning": "is being provisioned",
    "Ready": "is ready",
    "Removed": "is removed",
    "ScalingDown": "scale down",
    "ScalingUp": "scale up",
    "Settled": "is settled",
    "Tainting": "is tainted",
    "Writing": "updates its deletion order",
}


def describe_timeline(timeline: Iterable[TimelineEntry]) -> list[tuple[TimelineEntry, str]]:
    """The entries worth showing, each with its text; frequent texts are shown only now and then."""
    shown: list[tuple[TimelineEntry, str]] = []
    for one in timeline:
        text = _text(one)
        if shown and (merged := _merge_joined(shown[-1], one, text)):
            shown[-1] = (shown[-1][0], merged)
            continue
        recent = [before for _, before in shown[-_RECENT_LINES:]]
        if text and text != (recent[-1] if recent else "") and not (text.endswith(_FREQUENT) and text in recent):
            shown.append((one, text))
    return shown


def _merge_joined(before: tuple[TimelineEntry, str], one: TimelineEntry, text: str) -> str:
    """One line for nodes that join at the same time; empty if the entry is another one."""
    first, said = before
    if first.at != one.at or not _JOINED.fullmatch(text):
        return ""
    if _JOINED.fullmatch(said):
        return "2 nodes joined"
    many = _MANY_JOINED.fullmatch(said)
    return f"{int(many[1]) + 1} nodes joined" if many is not None else ""


def describe_reason(entry: TimelineEntry) -> str:
    """The reason of an entry, without the action id that the operator's logs prefix."""
    return re.sub(r"^(none|(scale|migrate)-[a-z-]+): ", "", entry.why)


def _text(entry: TimelineEntry) -> str:
    found = _DECISION.fullmatch(entry.what)
    if found is None:
        return entry.what
    if found["code"] in _SILENT or entry.why.startswith(_SILENT_REASONS):
        return ""
    subject = "node groups" if found["kind"] == "NodeGroups" else found["key"].rpartition("/")[2]
    said = _CODES.get(found["code"]) or re.sub(r"(?<!^)(?=[A-Z])", " ", found["code"]).lower()
    return f"{subject} {said.replace('is settled', 'are settled') if subject == 'node groups' else said}"
