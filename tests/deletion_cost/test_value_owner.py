"""A value is ours while our mark beside it says the same; everything else is someone else's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.controllers.deletion_cost.spec import WorkloadSettings
from plimsoll.controllers.deletion_cost.values import (
    COST,
    VALUE_RECORD,
    DeletionValue,
    parse_cost,
    read_value,
    removed,
    written,
)
from tests import build
from tests.deletion_cost.scene import TOP, foreign_value, our_value

SETTINGS = WorkloadSettings(enabled=True)


def read(annotations: dict[str, str], *, adopt: bool = False, ceiling: int = TOP) -> DeletionValue:
    return read_value(build.pod(annotations=annotations), SETTINGS, ceiling=ceiling, adopt_existing=adopt)


@pytest.mark.parametrize(
    ("text", "cost"),
    [("0", 0), ("7", 7), ("-7", -7), ("2147483647", TOP), ("-2147483648", -(2**31)), ("-0", 0), ("-07", -7)],
)
def test_what_kubernetes_reads_as_a_cost(text: str, cost: int) -> None:
    assert parse_cost(text) == cost


@pytest.mark.parametrize(
    "text", ["", "+7", "007", "00", "7.0", "seven", "2147483648", "-2147483649", "1_000", " 7", "7 ", "-", "٣", "0x7"]
)
def test_what_kubernetes_refuses(text: str) -> None:
    assert parse_cost(text) is None


@given(st.integers(-(2**31), 2**31 - 1))
def test_what_we_write_is_ours_when_read_again(cost: int) -> None:
    body = written(cost, SETTINGS, rewritten=None)["metadata"]["annotations"]
    value = read(body)
    assert (value.value_owner, value.cost) == ("ours", cost)


def test_no_annotation_is_nobodys() -> None:
    assert read({}).value_owner == "nobody"


def test_a_value_without_a_mark_is_someone_elses() -> None:
    assert read(foreign_value(TOP)) == DeletionValue("foreign", TOP)


def test_once_someone_changes_our_value_it_is_theirs() -> None:
    assert read(our_value(TOP) | {COST: "5"}) == DeletionValue("foreign", 5)


def test_a_value_that_is_no_int32_is_someone_elses_and_counts_as_kubernetes_counts_it() -> None:
    value = read(foreign_value("high"))
    assert (value.value_owner, value.cost, value.unreadable) == ("foreign", 0, "high")


@pytest.mark.parametrize("mark", ["", "{}", "not json", '{"cost":"x","type":"zone","spreadBy":"z"}'])
def test_a_mark_that_is_not_ours_makes_nothing_ours(mark: str) -> None:
    assert read({COST: "5", VALUE_RECORD: mark}).value_owner == "foreign"


def test_a_value_taken_away_is_noticed() -> None:
    value = read({VALUE_RECORD: our_value(TOP)[VALUE_RECORD]})
    assert value.value_owner == "nobody"
    assert value.taken_away


def test_a_value_made_for_another_label_or_type_is_out_of_date() -> None:
    for outdated in (our_value(TOP, spread_by="rack"), our_value(TOP, kind="by-age")):
        value = read(outdated)
        assert (value.value_owner, value.cost, value.outdated) == ("nobody", None, TOP)


def test_our_value_above_a_lowered_ceiling_is_out_of_date() -> None:
    assert read(our_value(1001), ceiling=1000).outdated == 1001
    assert read(our_value(1000), ceiling=1000).value_owner == "ours"


def test_adoption_takes_over_what_counts_down_from_the_top() -> None:
    assert read(foreign_value(TOP - 12), adopt=True).value_owner == "ours"
    assert read(foreign_value(TOP - 12), adopt=False).value_owner == "foreign"


def test_adoption_leaves_values_that_people_write() -> None:
    for cost in (1000, 0, -5, TOP - 10_000):
        assert read(foreign_value(cost), adopt=True).value_owner == "foreign"


def test_adoption_does_not_undo_a_change_that_someone_made_to_our_value() -> None:
    assert read(our_value(TOP - 3) | {COST: str(TOP)}, adopt=True).value_owner == "foreign"


def test_what_is_removed_is_ours_and_nothing_else() -> None:
    assert removed(build.pod(annotations=our_value(TOP))) == {
        "metadata": {"annotations": {VALUE_RECORD: None, COST: None}}
    }
    changed_by_someone = our_value(TOP) | {COST: "5"}
    assert removed(build.pod(annotations=changed_by_someone)) == {"metadata": {"annotations": {VALUE_RECORD: None}}}
    assert removed(build.pod(annotations=foreign_value(TOP))) is None
    assert removed(build.pod()) is None
