"""docs/architecture.md explains every code with which the actuator refuses an action."""

from __future__ import annotations

import re
from pathlib import Path

from plimsoll.runtime import actuator
from plimsoll.runtime.actuator import TRANSIENT_BLOCKERS

ROOT = Path(__file__).parents[2]
SOURCES = ("runtime/actuator.py", "disruption/ledger.py", "disruption/pdb.py", "disruption/last_ready.py")


def codes_in_source() -> set[str]:
    texts = [(ROOT / "src/plimsoll" / name).read_text() for name in SOURCES]
    named = {code for text in texts for code in re.findall(r'(?:Blocker|_refusal)\(\s*"(\w+)"', text)}
    named |= {getattr(actuator, name) for name in re.findall(r"_refusal\(\s*([A-Z_]+),", texts[0])}
    machines = (ROOT / "src/plimsoll/runtime/machine_requests.py").read_text()
    of_providers = set(re.findall(r'_refused\(\s*action,\s*"(\w+)"', machines))
    for errors in re.findall(r"except \(([\w, ]+)\) as error:\s*return _refused", machines):
        of_providers.update(errors.split(", "))
    assert of_providers, "no refusal found in machine_requests.py: adapt the expressions above"
    return named | of_providers | TRANSIENT_BLOCKERS


def test_the_table_has_exactly_the_codes_of_the_actuator() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    table = page.partition("### What the actuator refuses")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {code for row in rows for code in re.findall(r"`(\w+)`", row)} == codes_in_source()
