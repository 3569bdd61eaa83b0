"""Times as Kubernetes writes them, read with every form that Go's `time.Parse` and the API server's `date-time` format accept."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

# Lower-case letters, one-digit hours, any separator of the fraction, offsets up to 99:99, and years that Go prints with more or
# fewer than four digits after it converted a time to UTC.
_FORM = re.compile(
    r"(-?\d{4,6})-(\d\d)-(\d\d)[tT](\d{1,2}):(\d\d):(\d\d)(?:[^\dzZ+-](\d+))?(?:[zZ]|([+-])(\d\d):(\d\d))", re.ASCII
)
_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def parse_time(text: str) -> datetime:
    """Parse an RFC 3339 time in any of its forms, in UTC; a time outside the years 1 to 9999 becomes the nearest one inside.

    Raises ValueError.
    """
    form = _FORM.fullmatch(text)
    if form is None:
        raise ValueError(f"{text[:64]!r} is not a time: expected RFC 3339, such as 2026-01-31T12:00:00Z")
    year, month, day, hour, minute, second = (int(form[group]) for group in range(1, 7))
    if year < 1:
        return _EARLIEST
    if year > 9999:
        return _LATEST
    microsecond = int((form[7] or "0")[:6].ljust(6, "0"))
    moment = datetime(year, month, day, hour, minute, min(second, 59), microsecond, tzinfo=UTC)
    offset = timedelta(hours=int(form[9] or 0), minutes=int(form[10] or 0))
    try:
        return moment - offset if form[8] == "+" else moment + offset
    except OverflowError:
        return _EARLIEST if form[8] == "+" else _LATEST
