"""Whose value is it that a pod carries?

A value of ours has a mark beside it, an annotation that repeats the value and says what it was made for. Once anyone changes
the value, the two differ and it is theirs: for ever, because they may have a reason that we do not see.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from plimsoll.controllers.deletion_cost.spec import HIGHEST_COST, LOWEST_COST, WorkloadSettings
from plimsoll.kube.types.core import Pod

COST = "controller.kubernetes.io/pod-deletion-cost"
MARK = "plimsoll.dev/deletion-cost"

# Values this near the top are taken for the work of a controller that counts down from it, where adoption is asked for. As
# many as a ReplicaSet can have pods in a zone, and far fewer than would reach a value that a person writes.
ADOPTION_REACH = 10_000

Whose = Literal["nobody", "ours", "foreign"]


class Mark(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What stands beside a value of ours."""

    cost: int
    type: str
    spread_by: str
    rewritten: datetime | None = None  # when the value replaced an earlier one of ours; limits the pace


class Value(Struct, frozen=True):
    """The value of a pod, as far as it counts."""

    whose: Whose
    cost: int | None = (
        None  # what Kubernetes reads; None where there is nothing, or something of ours that is out of date
    )
    mark: Mark | None = None
    unreadable: str | None = None  # the text, where it is no int32
    outdated: int | None = None  # a value of ours that was made under other settings

    @property
    def taken_away(self) -> bool:
        """Someone removed a value of ours."""
        return self.whose == "nobody" and self.mark is not None


def parse_cost(text: str) -> int | None:
    """The value as Kubernetes parses it: an int32 without a plus sign or leading zeros; None if it is none."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or (text[0] == "0" and text != "0"):
        return None
    cost = int(text)
    return cost if LOWEST_COST <= cost <= HIGHEST_COST else None


def read_mark(annotations: Mapping[str, str]) -> Mark | None:
    text = annotations.get(MARK)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Mark)
    except msgspec.MsgspecError:
        return None  # not written by us: then the value beside it is not ours either


def read_value(pod: Pod, settings: WorkloadSettings, *, ceiling: int, adopt_existing: bool) -> Value:
    """Whose value the pod carries under these settings. A value of ours made under others counts as not there."""
    text = pod.annotations.get(COST)
    mark = read_mark(pod.annotations)
    if text is None:
        made_for_this = mark is not None and _made_for(mark, settings)
        return Value("nobody", mark=mark if made_for_this else None)
    cost = parse_cost(text)
    if cost is None:
        return Value("foreign", 0, unreadable=text)
    ours = mark is not None and mark.cost == cost
    adopted = adopt_existing and mark is None and cost > HIGHEST_COST - ADOPTION_REACH
    if not ours and not adopted:
        return Value("foreign", cost)
    if cost > ceiling or (mark is not None and not _made_for(mark, settings)):
        return Value("nobody", outdated=cost)
    return Value("ours", cost, mark)


def _made_for(mark: Mark, settings: WorkloadSettings) -> bool:
    return (mark.type, mark.spread_by) == (settings.type, settings.spread_by)


def written(cost: int, settings: WorkloadSettings, *, rewritten: datetime | None) -> dict[str, Any]:
    """The merge patch that gives a pod a value of ours."""
    mark = Mark(cost, settings.type, settings.spread_by, rewritten)
    return {"metadata": {"annotations": {COST: str(cost), MARK: msgspec.json.encode(mark).decode()}}}


def removed(pod: Pod) -> dict[str, Any] | None:
    """The merge patch that takes away what is ours and nothing else; None if nothing is."""
    if MARK not in pod.annotations:
        return None
    mark, text = read_mark(pod.annotations), pod.annotations.get(COST)
    gone: dict[str, None] = {MARK: None}
    if mark is not None and text is not None and parse_cost(text) == mark.cost:
        gone[COST] = None
    return {"metadata": {"annotations": gone}}
