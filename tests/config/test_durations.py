from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plimsoll.kube.types.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("0", timedelta()),
        ("0s", timedelta()),
        ("10s", timedelta(seconds=10)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5h", timedelta(minutes=90)),
        ("30m1h", timedelta(minutes=90)),
        (".5s", timedelta(milliseconds=500)),
        ("500ms", timedelta(milliseconds=500)),
        ("250us", timedelta(microseconds=250)),
        ("250µs", timedelta(microseconds=250)),
        ("250μs", timedelta(microseconds=250)),
        ("3000ns", timedelta(microseconds=3)),
        ("2540400h10m10s", timedelta(hours=2540400, minutes=10, seconds=10)),
    ],
)
def test_reads_what_go_reads(text: str, span: timedelta) -> None:
    assert parse_duration(text) == span


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("30", 'did you mean "30s"'),
        ("1.5", 'did you mean "1.5s"'),
        ("7d", 'write "168h"'),
        ("-5s", "is negative"),
        ("", "is not a duration"),
        ("5 s", "is not a duration"),
        ("1h30", "is not a duration"),
        ("5sec", "is not a duration"),
        ("1٣s", "is not a duration"),
        ("PT5S", "is not a duration"),
        ("1ns", "finer than a microsecond"),
        ("99999999999999h", "longest Go duration"),
    ],
)
def test_refuses_with_a_hint(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint) as refusal:
        parse_duration(text)
    assert f'"{text}"' in str(refusal.value)


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(), "0s"),
        (timedelta(hours=1), "1h"),
        (timedelta(seconds=150), "2m30s"),
        (timedelta(seconds=1, milliseconds=500), "1.5s"),
        (timedelta(milliseconds=1, microseconds=500), "1.5ms"),
        (timedelta(days=2), "48h"),
        (timedelta(seconds=-90), "-1m30s"),
    ],
)
def test_writes_the_shortest_form(span: timedelta, text: str) -> None:
    assert format_duration(span) == text


@given(st.timedeltas(min_value=timedelta(), max_value=timedelta(days=100_000)))
@example(timedelta(microseconds=1))
@example(timedelta(hours=2_562_047, minutes=47))
def test_what_is_written_reads_back_as_the_same(span: timedelta) -> None:
    assert parse_duration(format_duration(span)) == span


@given(st.text(max_size=20))
def test_any_text_is_a_duration_or_a_refusal(text: str) -> None:
    try:
        assert parse_duration(text) >= timedelta()
    except ValueError as refusal:
        assert text in str(refusal)  # noqa: PT017  (either outcome is right; the refusal must name the text)
