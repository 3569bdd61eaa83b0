"""What a user wrote on a workload, as a typed policy, or every reason why it cannot be followed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from plimsoll.controllers.placement.target import Rounding, Share
from plimsoll.controllers.placement.window import DisruptionWindow, parse_window
from plimsoll.kube.types.core import KubeObject, Labels

ENABLED = "spotalis.io/enabled"
MIN_ON_DEMAND = "spotalis.io/min-on-demand"
SPOT_PERCENTAGE = "spotalis.io/spot-percentage"
SCHEDULE = "spotalis.io/disruption-schedule"
DURATION = "spotalis.io/disruption-duration"
TIMEZONE = "spotalis.io/disruption-timezone"

_MINIMUM = re.compile(r"[0-9]{1,3}")
_PERCENTAGE = re.compile(r"([0-9]{1,3})(%?)")
_LONGEST_SHOWN = 40


class Fault(Struct, frozen=True):
    """One thing that is wrong: where it stands, what it says, and what it should say."""

    key: str
    value: str
    rule: str

    def __str__(self) -> str:
        shown = self.value if len(self.value) <= _LONGEST_SHOWN else self.value[:_LONGEST_SHOWN] + "…"
        return f'{self.key} is "{shown}": {self.rule}'


class Policy(Struct, frozen=True):
    """A workload that is managed."""

    share: Share
    window: DisruptionWindow | None = None  # the workload's own


class Reading(Struct, frozen=True):
    """What the annotations come to: not enabled, enabled with nothing asked, faults, or a policy."""

    enabled: bool = False
    policy: Policy | None = None
    faults: tuple[Fault, ...] = ()


def read(
    workload: KubeObject,
    *,
    rounding: Rounding = Rounding.DOWN,
    percent_sign: Literal["required", "optional"] = "required",
) -> Reading:
    """The policy of a workload. An annotation wins over a label; the label is how older installations opted in."""
    annotations = workload.annotations
    switch = annotations.get(ENABLED, workload.labels.get(ENABLED))
    if switch in (None, "false"):
        return Reading()
    faults: list[Fault] = []
    if switch != "true":
        faults.append(Fault(ENABLED, str(switch), 'must be "true" or "false"'))
    minimum = _minimum(annotations, faults)
    percentage = _percentage(annotations, faults, percent_sign)
    window = read_window(annotations, faults)
    if faults:
        return Reading(enabled=True, faults=tuple(faults))
    if MIN_ON_DEMAND not in annotations and SPOT_PERCENTAGE not in annotations:
        return Reading(enabled=True)
    return Reading(enabled=True, policy=Policy(Share(minimum, percentage, rounding), window))


def read_window(annotations: Mapping[str, str], faults: list[Fault]) -> DisruptionWindow | None:
    """The disruption window of a workload's or a namespace's annotations; what is wrong is added to `faults`."""
    schedule, duration = annotations.get(SCHEDULE), annotations.get(DURATION)
    if schedule is None and duration is None:
        if TIMEZONE in annotations:
            faults.append(Fault(TIMEZONE, annotations[TIMEZONE], f"means nothing without {SCHEDULE} and {DURATION}"))
        return None
    if schedule is None or duration is None:
        there, missing = (SCHEDULE, DURATION) if duration is None else (DURATION, SCHEDULE)
        faults.append(Fault(there, annotations[there], f"needs {missing} beside it"))
        return None
    try:
        return parse_window(schedule, duration, annotations.get(TIMEZONE, "UTC"))
    except ValueError as error:
        faults.append(Fault(SCHEDULE, schedule, str(error)))
        return None


def _minimum(annotations: Labels, faults: list[Fault]) -> int:
    text = annotations.get(MIN_ON_DEMAND, "0")
    if not _MINIMUM.fullmatch(text):
        faults.append(Fault(MIN_ON_DEMAND, text, "must be a whole number from 0 to 999"))
        return 0
    return int(text)


def _percentage(annotations: Labels, faults: list[Fault], percent_sign: str) -> int:
    text = annotations.get(SPOT_PERCENTAGE, "0%")
    form = _PERCENTAGE.fullmatch(text)
    if form is None or int(form[1]) > 100:
        faults.append(Fault(SPOT_PERCENTAGE, text, "must be a whole number from 0 to 100 followed by %"))
        return 0
    if not form[2] and percent_sign == "required":
        faults.append(
            Fault(
                SPOT_PERCENTAGE,
                text,
                f'must end with %: write "{text}%" (or set placement.percentSign: optional for installations that left it out)',
            )
        )
        return 0
    return int(form[1])
