"""Disruption windows: a cron expression (when it opens), a duration (for how long) and a time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from msgspec import Struct

from plimsoll.kube.types.durations import format_duration, parse_duration

# Overlapping windows count as one; beyond this many the closing time is reported as unknown.
_OVERLAPS_FOLLOWED = 1000
# Longer than any change between standard and daylight saving time.
_CLOCK_CHANGE = timedelta(hours=4)


class DisruptionWindow(Struct, frozen=True):
    """Open at time t if it last started at a time s with s ≤ t < s + duration."""

    schedule: str
    duration: timedelta
    timezone: str = "UTC"

    def is_open(self, now: datetime) -> bool:
        start = self._first_start_after(now - self.duration)
        return start is not None and start <= now

    def changes_at(self, now: datetime) -> datetime | None:
        """When the window next opens or, if it is open, closes; None if never."""
        start = self._first_start_after(now - self.duration)
        if start is None or start > now:
            return start
        end = start + self.duration
        for _ in range(_OVERLAPS_FOLLOWED):
            following = self._first_start_after(start)
            if following is None or following > end:
                return end
            start, end = following, following + self.duration
        return None

    def __str__(self) -> str:
        return f'"{self.schedule}" for {format_duration(self.duration)} ({self.timezone})'

    def _first_start_after(self, moment: datetime) -> datetime | None:
        # Cron runs on local time, comparisons on UTC: when clocks change, local times are ambiguous and cannot be subtracted.
        zone = ZoneInfo(self.timezone)
        local = moment.astimezone(zone)
        if local.utcoffset() != (moment - _CLOCK_CHANGE).astimezone(zone).utcoffset():
            # Started inside the repeated hour, the expression would yield its start there a second time.
            local = (moment - _CLOCK_CHANGE).astimezone(zone)
        return next(
            (start for found in CronSim(_cron(self.schedule), local) if (start := found.astimezone(UTC)) > moment), None
        )


def parse_window(schedule: str, duration: str, timezone: str = "UTC") -> DisruptionWindow:
    """The window that three texts describe; ValueError lists every problem."""
    checked = (_schedule_problem(schedule), _duration_problem(duration), _zone_problem(timezone))
    if problems := [problem for problem in checked if problem]:
        raise ValueError("; ".join(problems))
    return DisruptionWindow(schedule, parse_duration(duration), timezone)


def _schedule_problem(schedule: str) -> str | None:
    expected = 'expected five fields "minute hour day month weekday", such as "0 2 * * *"'
    if len(schedule) > 256 or len(schedule.split()) != 5:
        return f"the schedule {schedule[:64]!r} is not a cron expression; {expected}"
    try:
        CronSim(_cron(schedule), datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        return f"the schedule {schedule!r} is not a cron expression ({error}); {expected}"
    return None


def _cron(schedule: str) -> str:
    """The schedule with `*` for `?`, which some cron dialects write for a field without a constraint."""
    return " ".join(f"*{part[1:]}" if part == "?" or part.startswith("?/") else part for part in schedule.split())


def _duration_problem(duration: str) -> str | None:
    if len(duration) > 64:
        return f"the duration {duration[:64]!r}… is too long to be one"
    try:
        span = parse_duration(duration)
    except ValueError as error:
        return f"the duration is wrong: {error}"
    return "the duration is zero: the window would never open" if not span else None


def _zone_problem(timezone: str) -> str | None:
    try:
        ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return f"the time zone {timezone[:64]!r} is unknown; expected a name such as Europe/Berlin or UTC"
    return None
