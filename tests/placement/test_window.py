"""Disruption windows: when they are open, when that changes, and over the nights on which clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.controllers.placement.window import DisruptionWindow, parse_window

NIGHTLY = parse_window("0 2 * * *", "4h")


def at(text: str, zone: str = "UTC") -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


@pytest.mark.parametrize(
    ("moment", "expected"),
    [("01:59:59", False), ("02:00:00", True), ("05:59:59", True), ("06:00:00", False)],
)
def test_it_is_open_from_its_start_until_its_duration_has_passed(moment: str, expected: bool):
    assert NIGHTLY.is_open(at(f"2026-05-05T{moment}")) is expected


def test_it_tells_when_it_opens_and_closes():
    assert NIGHTLY.changes_at(at("2026-05-05T01:00:00")) == at("2026-05-05T02:00:00")
    assert NIGHTLY.changes_at(at("2026-05-05T03:00:00")) == at("2026-05-05T06:00:00")


def test_windows_that_overlap_are_one():
    window = parse_window("0 * * * *", "90m")
    assert window.is_open(at("2026-05-05T03:59:00"))
    assert window.changes_at(at("2026-05-05T03:59:00")) is None  # it never closes
    assert parse_window("0 2,3 * * *", "90m").changes_at(at("2026-05-05T02:10:00")) == at("2026-05-05T04:30:00")


def test_the_clock_hangs_in_its_time_zone():
    window = parse_window("0 2 * * *", "1h", "America/New_York")
    assert window.is_open(at("2026-05-05T06:30:00"))  # UTC, summer
    assert window.is_open(at("2026-12-05T07:30:00"))  # UTC, winter
    assert not window.is_open(at("2026-05-05T02:30:00"))


def test_when_the_hour_is_skipped_the_window_opens_after_the_gap():
    # On 29 March 2026 in Berlin, 02:00 is followed by 03:00.
    window = parse_window("30 2 * * *", "1h", "Europe/Berlin")
    assert not window.is_open(at("2026-03-29T00:59:59"))
    assert window.is_open(at("2026-03-29T01:00:00"))  # 03:00 in Berlin
    assert not window.is_open(at("2026-03-29T02:00:00"))


def test_when_the_hour_comes_twice_the_window_is_as_long_as_ever():
    # On 25 October 2026 in Berlin, 02:00–03:00 comes twice: 00:00–01:00 and 01:00–02:00 UTC.
    window = parse_window("30 2 * * *", "1h", "Europe/Berlin")
    opened = [minute for minute in range(240) if window.is_open(at("2026-10-25T00:00:00") + timedelta(minutes=minute))]
    assert len(opened) == 60
    assert opened == list(range(opened[0], opened[0] + 60))


@given(
    st.integers(0, 366 * 24 * 60), st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
)
def test_what_changes_at_says_is_what_is_open_says(minutes: int, zone: str):
    window = DisruptionWindow("15 1-3 * * 1-5", timedelta(minutes=45), zone)
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    changes = window.changes_at(now)
    assert changes is not None
    assert changes > now
    before = window.is_open(now)
    assert window.is_open(changes - timedelta(seconds=1)) is before
    assert window.is_open(changes) is not before


@pytest.mark.parametrize(
    ("schedule", "duration", "timezone", "says"),
    [
        ("0 2 * *", "4h", "UTC", "five fields"),
        ("* 0 2 * * *", "4h", "UTC", "five fields"),
        ("0 25 * * *", "4h", "UTC", "Bad hour"),
        ("@daily", "4h", "UTC", "five fields"),
        ("0 2 * * *", "4", "UTC", "has no unit"),
        ("0 2 * * *", "0s", "UTC", "never open"),
        ("0 2 * * *", "-1h", "UTC", "negative"),
        ("0 2 * * *", "4h", "Mars/Olympus", "unknown"),
        ("0 2 * * *", "4h", "../../etc/passwd", "unknown"),
        ("0 2 * * *", "4h", "", "unknown"),
        ("9" * 5000, "9" * 5000, "9" * 5000, "cron"),
    ],
)
def test_what_is_wrong_is_named(schedule: str, duration: str, timezone: str, says: str):
    with pytest.raises(ValueError, match=says):
        parse_window(schedule, duration, timezone)


def test_all_faults_are_named_at_once():
    with pytest.raises(ValueError, match=r"cron.*unit.*time zone"):
        parse_window("never", "4", "Nowhere")


def test_a_duration_beyond_what_a_time_can_hold_is_refused_and_not_raised_in_every_decision():
    with pytest.raises(ValueError, match="longer than the longest Go duration"):
        parse_window("0 2 * * *", "99999999h")
    longest = parse_window("0 2 * * *", "2562047h")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert longest.is_open(now)
    longest.changes_at(now)
