"""Quantities as the API server reads them, in thousandths and rounded up."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.kube.codec import decode, encode
from plimsoll.kube.types.quantity import Quantity, parse_quantity

LARGEST = (2**63 - 1) * 1000


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("0", 0),
        ("2", 2000),
        ("0.5", 500),
        (".5", 500),
        ("1.", 1000),
        ("250m", 250),
        ("1500u", 2),  # 1.5 thousandths, rounded up
        ("1n", 1),
        ("2k", 2_000_000),
        ("1Ki", 1_024_000),
        ("1.5Gi", 1_610_612_736_000),
        ("2e3", 2_000_000),
        ("2E3", 2_000_000),
        ("1e-3", 1),
        ("1E", 10**21),  # a suffix, no exponent
        ("+1", 1000),
        ("-1", -1000),
        ("12E", LARGEST),
        ("1e900", LARGEST),
        ("0" * 100 + "1", 1000),  # the API server keeps it as it was written
        ("1" * 300, LARGEST),
        ("0." + "0" * 299 + "1", 1),
        ("0" * 5000 + "2.50" + "0" * 5000, 2500),  # more digits than Python's int() takes
        ("1." + "0" * 5000 + "1", 1001),
        ("1e+3", 1_000_000),
        ("1e-2000000000", 1),
        ("1e4294967297", 10_000),  # Go cuts the exponent to 32 bits
        ("Gi", 0),
        (".", 0),
        ("-", 0),
        (" 5 ", 5000),
    ],
)
def test_every_way_to_write_one(text: str, milli: int) -> None:
    assert parse_quantity(text).milli == milli


@pytest.mark.parametrize(
    "text",
    ["", "many", "1Q", "1 Gi", "1gi", "1e", "0x10", "1,5", "--1", "1e9223372036854775808", "1" * 65 + "x", "١"],
)
def test_what_is_no_quantity_is_shown(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity: expected a number such as"):
        parse_quantity(text)


@pytest.mark.parametrize(("text", "units"), [("1", 1), ("1m", 1), ("1500m", 2), ("2000m", 2)])
def test_whole_units_are_rounded_up(text: str, units: int) -> None:
    assert parse_quantity(text).units == units


@given(
    st.integers(0, 10**6),
    st.sampled_from([("m", Fraction(1, 1000)), ("", Fraction(1)), ("Mi", Fraction(2**20)), ("k", Fraction(1000))]),
)
def test_nothing_is_lost_on_the_way_to_the_server_and_back(number: int, suffix: tuple[str, Fraction]) -> None:
    quantity = parse_quantity(f"{number}{suffix[0]}")
    assert quantity.milli == number * suffix[1] * 1000
    assert decode(encode(quantity), Quantity) == quantity
