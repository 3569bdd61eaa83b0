"""Parse the placement annotations of a workload into a policy, or into the list of all their problems."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from plimsoll.controllers.placement.target import Rounding, Share
from plimsoll.controllers.placement.window import DisruptionWindow, parse_window
from plimsoll.kube.types.meta import KubeObject, Labels

ENABLED = "spotalis.io/enabled"
MIN_ON_DEMAND = "spotalis.io/min-on-demand"
SPOT_PERCENTAGE = "spotalis.io/spot-percentage"
SCHEDULE = "spotalis.io/disruption-schedule"
DURATION = "spotalis.io/disruption-duration"
TIMEZONE = "spotalis.io/disruption-timezone"

_MINIMUM = re.compile(r"[0-9]{1,3}")
_PERCENTAGE = re.compile(r"([0-9]{1,3})(%?)")
_LONGEST_SHOWN = 40


class AnnotationProblem(Struct, frozen=True):
    """One invalid annotation: its key, its value, and the rule that it breaks."""

    key: str
    value: str
    rule: str

    def __str__(self) -> str:
        shown = self.value if len(self.value) <= _LONGEST_SHOWN else self.value[:_LONGEST_SHOWN] + "…"
        return f'{self.key} is "{shown}": {self.rule}'


class Policy(Struct, frozen=True):
    """The placement policy of a managed workload."""

    share: Share
    window: DisruptionWindow | None = None  # the workload's own; None: the namespace's or the operator's applies


class ParsedAnnotations(Struct, frozen=True):
    """The result of parsing: not enabled, enabled without figures, problems, or a policy."""

    enabled: bool = False
    policy: Policy | None = None
    problems: tuple[AnnotationProblem, ...] = ()


def parse_annotations(
    workload: KubeObject,
    *,
    rounding: Rounding = Rounding.DOWN,
    percent_sign: Literal["required", "optional"] = "required",
) -> ParsedAnnotations:
    """Parse a workload. The annotation `enabled` wins over the label of the same name, which older installations use."""
    annotations = workload.annotations
    switch = annotations.get(ENABLED, workload.labels.get(ENABLED))
    if switch in (None, "false"):
        return ParsedAnnotations()
    problems: list[AnnotationProblem] = []
    if switch != "true":
        problems.append(AnnotationProblem(ENABLED, str(switch), 'must be "true" or "false"'))
    minimum = _minimum(annotations, problems)
    percentage = _percentage(annotations, problems, percent_sign)
    window = read_window(annotations, problems)
    if problems:
        return ParsedAnnotations(enabled=True, problems=tuple(problems))
    if MIN_ON_DEMAND not in annotations and SPOT_PERCENTAGE not in annotations:
        return ParsedAnnotations(enabled=True)
    return ParsedAnnotations(enabled=True, policy=Policy(Share(minimum, percentage, rounding), window))


def read_window(annotations: Mapping[str, str], problems: list[AnnotationProblem]) -> DisruptionWindow | None:
    """The disruption window of a workload's or a namespace's annotations; problems are appended to `problems`."""
    schedule, duration = annotations.get(SCHEDULE), annotations.get(DURATION)
    if schedule is None and duration is None:
        if TIMEZONE in annotations:
            problems.append(
                AnnotationProblem(TIMEZONE, annotations[TIMEZONE], f"means nothing without {SCHEDULE} and {DURATION}")
            )
        return None
    if schedule is None or duration is None:
        there, missing = (SCHEDULE, DURATION) if duration is None else (DURATION, SCHEDULE)
        problems.append(AnnotationProblem(there, annotations[there], f"needs {missing} beside it"))
        return None
    try:
        return parse_window(schedule, duration, annotations.get(TIMEZONE, "UTC"))
    except ValueError as error:
        problems.append(AnnotationProblem(SCHEDULE, schedule, str(error)))
        return None


def _minimum(annotations: Labels, problems: list[AnnotationProblem]) -> int:
    text = annotations.get(MIN_ON_DEMAND, "0")
    if not _MINIMUM.fullmatch(text):
        problems.append(AnnotationProblem(MIN_ON_DEMAND, text, "must be a whole number from 0 to 999"))
        return 0
    return int(text)


def _percentage(annotations: Labels, problems: list[AnnotationProblem], percent_sign: str) -> int:
    text = annotations.get(SPOT_PERCENTAGE, "0%")
    form = _PERCENTAGE.fullmatch(text)
    if form is None or int(form[1]) > 100:
        problems.append(AnnotationProblem(SPOT_PERCENTAGE, text, "must be a whole number from 0 to 100 followed by %"))
        return 0
    if not form[2] and percent_sign == "required":
        problems.append(
            AnnotationProblem(
                SPOT_PERCENTAGE,
                text,
                f'must end with %: write "{text}%" (or set placement.percentSign: optional for installations that left it out)',
            )
        )
        return 0
    return int(form[1])
