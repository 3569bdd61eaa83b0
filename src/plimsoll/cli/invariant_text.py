"""What a witness noted, in words for someone who sees this operator for the first time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from plimsoll.simulate.invariants import NewEvent

_DECISION = re.compile(r"(?P<controller>[a-z-]+) (?P<kind>\w+)/(?P<key>\S*): (?P<code>\w+)")
_CAME, _MANY_CAME = re.compile(r"node \S+ came"), re.compile(r"(\d+) nodes came")
# Nothing was done, and nobody would miss it.
_SILENT = {
    "Evicting", "Gone", "InOrder", "NoNodeGone", "NodeGone", "NodeNotFound", "NotEnabled", "Provisioned", "Tainted", "Waiting",
}  # fmt: skip
_SILENT_REASONS = ("nobody waits on node", "0 groups")
_OFTEN = ("who would leave first", "is as it should be")
_A_WHILE = 12  # lines
_CODES: Mapping[str, str] = {
    "Allocated": "has given what was asked for",
    "Blocked": "must wait",
    "ContainersWaiting": "is asked for drives and ports",
    "Deleting": "is on its way out",
    "Draining": "is emptied",
    "GivingBack": "is given back",
    "Insufficient": "has too few drives",
    "Joining": "joins",
    "MigratingToOnDemand": "moves a pod to on-demand",
    "MigratingToSpot": "moves a pod to spot",
    "NoGroupHelps": "do not help yet",
    "NodeLeaving": "leaves a node that goes",
    "Ordering": "is ordered",
    "Provisioning": "is being made",
    "Ready": "is ready",
    "Removed": "is gone",
    "ScalingDown": "shrink",
    "ScalingUp": "grow",
    "Settled": "is as it should be",
    "Tainting": "takes no more pods",
    "Writing": "is told who would leave first",
}


def worded(happenings: Iterable[NewEvent]) -> list[tuple[NewEvent, str]]:
    """Each happening that is worth showing, with what it says; one that comes again and again only now and then."""
    shown: list[tuple[NewEvent, str]] = []
    for one in happenings:
        text = _text(one)
        if shown and (crowd := _crowd(shown[-1], one, text)):
            shown[-1] = (shown[-1][0], crowd)
            continue
        recent = [before for _, before in shown[-_A_WHILE:]]
        if text and text != (recent[-1] if recent else "") and not (text.endswith(_OFTEN) and text in recent):
            shown.append((one, text))
    return shown


def _crowd(before: tuple[NewEvent, str], one: NewEvent, text: str) -> str:
    """Nodes that come in the same moment, in one line; empty where it is none of them."""
    first, said = before
    if first.at != one.at or not _CAME.fullmatch(text):
        return ""
    if _CAME.fullmatch(said):
        return "2 nodes came"
    many = _MANY_CAME.fullmatch(said)
    return f"{int(many[1]) + 1} nodes came" if many is not None else ""


def why(happening: NewEvent) -> str:
    """Its reason, without the name of the rule that the operator's logs put in front."""
    return re.sub(r"^(none|(scale|migrate)-[a-z-]+): ", "", happening.why)


def _text(happening: NewEvent) -> str:
    found = _DECISION.fullmatch(happening.what)
    if found is None:
        return happening.what
    if found["code"] in _SILENT or happening.why.startswith(_SILENT_REASONS):
        return ""
    subject = "node groups" if found["kind"] == "NodeGroups" else found["key"].rpartition("/")[2]
    said = _CODES.get(found["code"]) or re.sub(r"(?<!^)(?=[A-Z])", " ", found["code"]).lower()
    return f"{subject} {said.replace('is as it', 'are as they') if subject == 'node groups' else said}"
