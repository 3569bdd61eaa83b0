"""Kubernetes quantities ("250m", "1.5Gi", "2e3") as integers, parsed once when an object is decoded.

The unit is a thousandth, rounded up: the finest step that kube-scheduler sees for CPU, and fine enough that rounding up
again to whole units gives what it sees for every other resource.
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
_FORM = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
# The API server caps every quantity here too (2^63 - 1 units); beyond it arithmetic on int64 arrays would wrap.
_LARGEST_MILLI = (2**63 - 1) * 1000


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


@lru_cache(maxsize=16384)
def parse_quantity(text: str) -> Quantity:
    """The quantity that `text` writes; ValueError says what is wrong with it."""
    form = _FORM.fullmatch(text) if len(text) <= 64 else None
    if form is None:
        raise ValueError(f"{text[:64]!r} is not a quantity: expected a number such as 2, 0.5, 250m, 1Gi or 2e3")
    sign, digits, exponent, suffix = form.groups()
    value = Fraction(digits) * (Fraction(10) ** int(exponent) if exponent else _SUFFIXES[suffix or ""])
    milli = min(-(-value.numerator * 1000 // value.denominator), _LARGEST_MILLI)
    return Quantity(-milli if sign == "-" else milli)
