"""Go durations, as Kubernetes uses them: `1h30m`, `10s`, `500ms`."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

_MICROSECONDS = {
    "ns": Decimal("0.001"),
    "us": Decimal(1),
    "µs": Decimal(1),  # the micro sign
    "μs": Decimal(1),  # the Greek letter, which keyboards give more often
    "ms": Decimal(1_000),
    "s": Decimal(1_000_000),
    "m": Decimal(60_000_000),
    "h": Decimal(3_600_000_000),
}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_BARE_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)
_DAYS = re.compile(r"(\d+)d", re.ASCII)
# Go keeps nanoseconds in an int64. Without the limit, adding a duration to a time could leave the years that a datetime holds.
_LONGEST_MICROSECONDS = (2**63 - 1) // 1000
_FORM = 'write it like "10s", "1h30m" or "500ms"'


def parse_duration(text: str) -> timedelta:
    """Parse what Go's `time.ParseDuration` accepts, except negative durations: no setting here can be negative.

    A number without a unit is refused, because it could mean seconds or minutes.
    """
    if text == "0":
        return timedelta()
    if text.startswith("-"):
        raise ValueError(f'"{text}" is negative; {_FORM}')
    if _BARE_NUMBER.fullmatch(text):
        raise ValueError(f'"{text}" has no unit; did you mean "{text}s"?')
    if days := _DAYS.fullmatch(text):
        raise ValueError(f'"{text}" uses days, which Go durations do not have; write "{int(days[1]) * 24}h"')
    microseconds = Decimal(0)
    position = 0
    while part := _PART.match(text, position):
        microseconds += Decimal(part[1]) * _MICROSECONDS[part[2]]
        position = part.end()
    if position == 0 or position != len(text):
        raise ValueError(f'"{text}" is not a duration; {_FORM}')
    if microseconds != int(microseconds):
        raise ValueError(f'"{text}" is finer than a microsecond')
    if microseconds > _LONGEST_MICROSECONDS:
        raise ValueError(f'"{text}" is longer than the longest Go duration (2562047h47m)')
    return timedelta(microseconds=int(microseconds))


def format_duration(span: timedelta) -> str:
    """The shortest text that `parse_duration` reads back as the same span."""
    microseconds = span // timedelta(microseconds=1)
    if microseconds < 0:
        return f"-{format_duration(-span)}"
    if microseconds == 0:
        return "0s"
    if microseconds < 1_000_000:
        return f"{microseconds}us" if microseconds < 1000 else f"{_decimal(microseconds, 1000)}ms"
    hours, microseconds = divmod(microseconds, 3_600_000_000)
    minutes, microseconds = divmod(microseconds, 60_000_000)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    if microseconds:
        parts.append(f"{_decimal(microseconds, 1_000_000)}s")
    return "".join(parts)


def _decimal(value: int, unit: int) -> str:
    return f"{(Decimal(value) / unit).normalize():f}"
