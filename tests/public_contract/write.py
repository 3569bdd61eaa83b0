"""`python -m tests.public_contract.write`: write `contract.yaml` anew, and print what has changed."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.public_contract.contract import FILE, current, differences, read, read_deprecated, told, written


def write(file: Path) -> str:
    """Bring a file up to date; returns the differences, empty where there are none."""
    before = file.read_text("utf-8") if file.exists() else ""
    frozen, now = read(before), current()
    file.write_text(written(now, read_deprecated(before)), "utf-8")
    names = [*now, *(name for name in frozen if name not in now)]
    found = {name: differences(frozen.get(name, {}), now.get(name, {})) for name in names}
    return "\n".join(told(name, some) for name, some in found.items() if some)


if __name__ == "__main__":
    changed = write(FILE)
    sys.stdout.write(f"{changed}\n" if changed else f"{FILE.name} is up to date\n")
