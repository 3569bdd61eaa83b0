"""Kubernetes quantities ("250m", "1.5Gi", "2e3") as integers, parsed once when an object is decoded.

The parser accepts every form that `resource.ParseQuantity` of Kubernetes accepts, of any length, in time linear in the text: the
API server keeps many of them as the user wrote them. The unit is a thousandth, rounded up. That is the finest step that
kube-scheduler sees for CPU, and rounding up again to whole units gives what it sees for every other resource.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

_SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9),
    "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30),
    "Ti": Fraction(2**40), "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip
# Go requires no digit at all: "", "." and "+" before a suffix are 0. "E" alone is exa, with digits it is an exponent.
_FORM = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
# The API server caps binary quantities here (2^63 - 1 units); beyond it arithmetic on int64 arrays would wrap.
_LARGEST_MILLI = (2**63 - 1) * 1000
# No suffix is below 10^-9 or above 10^19, so a number with more integer digits than this is above every cap, and one with more
# zeros after the point rounds up to one thousandth.
_MOST_INTEGER_DIGITS = 40
_MOST_LEADING_ZEROS = 40
# Digits that are computed with. What follows only decides the rounding, so a single digit stands for it.
_MOST_DIGITS = 120
_MOST_EXPONENT_DIGITS = 19  # of an int64
_CACHED_CHARACTERS = 64  # longer texts are rare and would let a user fill the cache with megabytes


class Quantity(int):
    """An amount of a resource in thousandths of its unit (millicores, milli-bytes), rounded up."""

    __slots__ = ()

    @property
    def milli(self) -> int:
        return int(self)

    @property
    def units(self) -> int:
        """Whole units, rounded up: bytes of memory, count of devices."""
        return -(-int(self) // 1000)


def parse_quantity(text: str) -> Quantity:
    """Parse a quantity; ValueError says what is wrong with it."""
    return _cached(text) if len(text) <= _CACHED_CHARACTERS else _parse(text)


def _parse(text: str) -> Quantity:
    text = text.strip()
    form = _FORM.fullmatch(text)
    if form is None or not text:
        raise _not_a_quantity(text)
    sign, integer, fraction, exponent, suffix = form.groups()
    fraction = fraction or ""
    scale = _int32(exponent, text) - len(fraction)
    digits = (integer + fraction).lstrip("0")
    if not digits:
        return Quantity(0)
    integer_digits = len(digits) + scale
    if integer_digits > _MOST_INTEGER_DIGITS:
        milli = _LARGEST_MILLI
    elif integer_digits < -_MOST_LEADING_ZEROS:
        milli = 1
    else:
        rest = digits[_MOST_DIGITS:]
        number = int(digits[:_MOST_DIGITS]) + (1 if rest.strip("0") else 0)
        value = number * Fraction(10) ** (scale + len(rest)) * _SUFFIXES[suffix or ""]
        milli = min(-(-value.numerator * 1000 // value.denominator), _LARGEST_MILLI)
    return Quantity(-milli if sign == "-" else milli)


def _int32(exponent: str | None, text: str) -> int:
    """The exponent as Go reads it: an int64 that is then cut to 32 bits."""
    if exponent is None:
        return 0
    digits = exponent.lstrip("+-").lstrip("0") or "0"
    number = int(digits) if len(digits) <= _MOST_EXPONENT_DIGITS else 2**63
    number = -number if exponent.startswith("-") else number
    if not -(2**63) <= number < 2**63:
        raise _not_a_quantity(text)
    return (number + 2**31) % 2**32 - 2**31


def _not_a_quantity(text: str) -> ValueError:
    return ValueError(f"{text[:64]!r} is not a quantity: expected a number such as 2, 0.5, 250m, 1Gi or 2e3")


_cached = lru_cache(maxsize=16384)(_parse)
