"""Values that the original systems accept and that mean the same here."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from plimsoll.controllers.deletion_cost.spec import ENABLED, TYPE, read_settings
from plimsoll.controllers.placement.window import parse_window


@pytest.mark.parametrize("schedule", ["0 2 ? * *", "0 2 * * ?", "0 2 ? * ?", "0/30 2 ? * *"])
def test_a_question_mark_is_a_field_without_a_constraint(schedule: str) -> None:
    window = parse_window(schedule, "1h")
    assert window.is_open(datetime(2026, 1, 5, 2, 30, tzinfo=UTC))
    assert not window.is_open(datetime(2026, 1, 5, 12, 0, tzinfo=UTC))
    assert schedule in str(window)


def test_a_question_mark_inside_a_field_is_still_an_error() -> None:
    with pytest.raises(ValueError, match="is not a cron expression"):
        parse_window("0 2? * * *", "1h")


def test_an_empty_type_is_the_default() -> None:
    found = read_settings({ENABLED: "true", TYPE: ""}, ("zone", "capacity"))
    assert found == read_settings({ENABLED: "true"}, ("zone", "capacity"))
