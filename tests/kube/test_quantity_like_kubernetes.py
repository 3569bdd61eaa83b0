"""Our parser and that of Kubernetes, built from apimachinery, agree about every text that a quantity may be written as."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from pathlib import Path
from random import Random

import pytest

from plimsoll.kube.types.quantity import parse_quantity

pytestmark = pytest.mark.real
SOURCE = Path(__file__).parent / "quantities"
LARGEST = (2**63 - 1) * 1000
EXACT = Context(prec=4000, rounding=ROUND_CEILING, Emax=10**6, Emin=-(10**6))

Kubernetes = Callable[[list[str]], list[str]]

SUFFIXES = (
    "", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e", "K", "i", "mm", "Q", " ",
)  # fmt: skip


def digits(random: Random) -> str:
    if random.random() < 0.2:
        return random.choice("019") * random.randint(0, 400)
    return "".join(random.choices("0123456789", k=random.randint(0, 12)))


def written_by(random: Random) -> str:
    suffix = random.choice(SUFFIXES)
    if random.random() < 0.3:
        suffix = f"{random.choice('eE')}{random.choice(('', '+', '-', '0', '--'))}{random.randint(0, 300)}"
    sign, point = random.choice(("", "", "+", "-", " ", "+-")), random.choice(("", "."))
    return f"{sign}{digits(random)}{point}{digits(random)}{suffix}"


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Kubernetes:
    program = tmp_path_factory.mktemp("quantities") / "quantities"
    subprocess.run(["go", "build", "-mod=readonly", "-o", program, "."], cwd=SOURCE, check=True, timeout=300)

    def parsed(written: list[str]) -> list[str]:
        lines = "".join(f"{json.dumps(text)}\n" for text in written)
        ran = subprocess.run([program], input=lines, capture_output=True, text=True, check=True, timeout=60)
        return ran.stdout.splitlines()

    return parsed


def ours(text: str) -> int | None:
    try:
        return parse_quantity(text).milli
    except ValueError:
        return None


def theirs(line: str) -> int | None:
    if line == "invalid":
        return None
    value = Decimal(line.rsplit(" ", 1)[1])
    milli = int(EXACT.to_integral_value(EXACT.multiply(abs(value), Decimal(1000))))
    return min(milli, LARGEST) * (-1 if value < 0 else 1)


@pytest.mark.parametrize("seed", range(5))
def test_what_kubernetes_accepts_has_the_same_value_here(kubernetes: Kubernetes, seed: int) -> None:
    random = Random(seed)
    written = [written_by(random) for _ in range(2000)]
    for text, line in zip(written, kubernetes(written), strict=True):
        # Of texts without a digit, Kubernetes takes some for 0 and refuses others; to take all for 0 does no harm.
        assert ours(text) == theirs(line) or (line == "invalid" and ours(text) == 0), f"{text!r}: {line!r}"
        if line != "invalid":
            emitted = ours(line.split(" ")[1])
            assert emitted is not None, f"what Kubernetes writes for {text!r} is {line!r}"
            # Above exa it loses the exponent of a decimal quantity: 1 followed by 150 zeros is written as 10.
            assert emitted == theirs(line) or abs(theirs(line) or 0) == LARGEST, f"{text!r}: {line!r}"
