"""Every refusal of the door is explained to those who meet its code in a metric."""

from __future__ import annotations

import re
from pathlib import Path

from plimsoll.runtime.actuator import PASSING

ROOT = Path(__file__).parents[2]


def codes_in_source() -> set[str]:
    act, disruption, machines = (
        (ROOT / "src/plimsoll" / name).read_text()
        for name in ("runtime/actuator.py", "disruption/ledger.py", "runtime/machine_requests.py")
    )
    named = {code for text in (act, disruption) for code in re.findall(r'(?:Blocker|_refusal)\(\s*"(\w+)"', text)}
    of_providers = set(re.findall(r'_refused\(\s*action,\s*"(\w+)"', machines))
    for errors in re.findall(r"except \(([\w, ]+)\) as error:\s*return _refused", machines):
        of_providers.update(errors.split(", "))
    assert of_providers, "machines.py says it in another way now"
    return named | of_providers | PASSING


def test_the_table_has_exactly_the_codes_of_the_door() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    table = page.partition("### What the door refuses")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {code for row in rows for code in re.findall(r"`(\w+)`", row)} == codes_in_source()
