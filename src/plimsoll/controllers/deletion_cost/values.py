"""Who wrote the deletion cost of a pod: nobody, this operator ("ours") or somebody else ("foreign").

Beside a value of ours stands a second annotation, the value record, which repeats the value and says for which settings it was
computed. If somebody changes the value, the two differ and the value stays foreign.
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
VALUE_RECORD = "plimsoll.dev/deletion-cost"

# With adoptExisting, values this close to the maximum count as those of a controller that counts down from it: more than a
# ReplicaSet has pods in a zone, and far from any value that a person writes.
ADOPTION_REACH = 10_000

ValueOwner = Literal["nobody", "ours", "foreign"]


class ValueRecord(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The value record beside a value of ours."""

    cost: int
    type: str
    spread_by: str
    rewritten: datetime | None = None  # when the value replaced an earlier one of ours; the rewrite limit counts these


class DeletionValue(Struct, frozen=True):
    """The deletion cost of a pod and who wrote it."""

    value_owner: ValueOwner
    cost: int | None = None  # as Kubernetes reads it; None: no value, or an outdated one of ours
    record: ValueRecord | None = None
    unreadable: str | None = None  # the text, if it is not an int32
    outdated: int | None = None  # a value of ours that was computed for other settings

    @property
    def taken_away(self) -> bool:
        """Whether somebody removed a value of ours."""
        return self.value_owner == "nobody" and self.record is not None


def parse_cost(text: str) -> int | None:
    """The value as Kubernetes parses it: an int32 without plus sign or leading zeros; None if invalid."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or (text[0] == "0" and text != "0"):
        return None
    cost = int(text)
    return cost if LOWEST_COST <= cost <= HIGHEST_COST else None


def read_value_record(annotations: Mapping[str, str]) -> ValueRecord | None:
    text = annotations.get(VALUE_RECORD)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=ValueRecord)
    except msgspec.MsgspecError:
        return None  # not written by us, so the value is not ours either


def read_value(pod: Pod, settings: WorkloadSettings, *, ceiling: int, adopt_existing: bool) -> DeletionValue:
    """The deletion cost of a pod under these settings. A value of ours that was computed for others counts as absent."""
    text = pod.annotations.get(COST)
    record = read_value_record(pod.annotations)
    if text is None:
        matches = record is not None and _computed_for(record, settings)
        return DeletionValue("nobody", record=record if matches else None)
    cost = parse_cost(text)
    if cost is None:
        return DeletionValue("foreign", 0, unreadable=text)
    ours = record is not None and record.cost == cost
    adopted = adopt_existing and record is None and cost > HIGHEST_COST - ADOPTION_REACH
    if not ours and not adopted:
        return DeletionValue("foreign", cost)
    if cost > ceiling or (record is not None and not _computed_for(record, settings)):
        return DeletionValue("nobody", outdated=cost)
    return DeletionValue("ours", cost, record)


def _computed_for(record: ValueRecord, settings: WorkloadSettings) -> bool:
    return (record.type, record.spread_by) == (settings.type, settings.spread_by)


def written(cost: int, settings: WorkloadSettings, *, rewritten: datetime | None) -> dict[str, Any]:
    """The patch that writes a value and its record."""
    record = ValueRecord(cost, settings.type, settings.spread_by, rewritten)
    return {"metadata": {"annotations": {COST: str(cost), VALUE_RECORD: msgspec.json.encode(record).decode()}}}


def removed(pod: Pod) -> dict[str, Any] | None:
    """The patch that removes what we wrote and nothing else; None if there is nothing."""
    if VALUE_RECORD not in pod.annotations:
        return None
    record, text = read_value_record(pod.annotations), pod.annotations.get(COST)
    gone: dict[str, None] = {VALUE_RECORD: None}
    if record is not None and text is not None and parse_cost(text) == record.cost:
        gone[COST] = None
    return {"metadata": {"annotations": gone}}
