"""The file `contract.yaml`: read, written, and compared with what the operator has now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import yaml

from tests.public_contract.sections import SECTIONS, Part, Parts

FILE = Path(__file__).with_name("contract.yaml")
WRITE = "python -m tests.public_contract.write"
Contract: TypeAlias = dict[str, Parts]

_HEAD = f"""\
# Every string that users depend on. tests/public_contract compares this file with the operator.
# A removal or a change is deliberate only with an entry in CHANGELOG.md. Do not edit the sections: `{WRITE}` writes them.
"""
_DEPRECATED = """\
# Strings that are still read for one release, edited by hand: {old: …, new: …, readable until: VERSION}.
"""


class Deprecated(NamedTuple):
    """A string that is still read, although another has taken its place."""

    old: str
    new: str
    readable_until: str  # a version


class Difference(NamedTuple):
    part: str
    sign: str  # + for what was added, - for what was removed
    text: str


def current() -> Contract:
    return {section.name: section.derive() for section in SECTIONS}


def read(text: str) -> Contract:
    found: dict[str, Any] = yaml.safe_load(text) or {}
    return {name: parts for name, parts in found.items() if name != "deprecated"}


def read_deprecated(text: str) -> list[Deprecated]:
    """Raises ValueError for an entry that does not say everything."""
    found = []
    for entry in (yaml.safe_load(text) or {}).get("deprecated") or []:
        if not isinstance(entry, dict) or set(entry) != {"old", "new", "readable until"}:
            raise ValueError(f"deprecated: {entry}: expected the keys old, new and readable until")
        found.append(Deprecated(str(entry["old"]), str(entry["new"]), str(entry["readable until"])))
    return found


def written(contract: Mapping[str, Parts], deprecated: list[Deprecated]) -> str:
    """The text of the file. Sections keep their order; everything inside them is sorted."""
    about = {section.name: section.about for section in SECTIONS}
    entries = [{"old": one.old, "new": one.new, "readable until": one.readable_until} for one in deprecated]
    parts = [_HEAD, _DEPRECATED + _yaml({"deprecated": entries})]
    for name, section in contract.items():
        ordered = {part: sorted(some) if isinstance(some, list) else some for part, some in section.items()}
        parts.append(f"# {about.get(name, name)}\n{_yaml({name: ordered})}")
    return "\n".join(parts)


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, allow_unicode=True, default_flow_style=False, sort_keys=True, width=1000)


def differences(frozen: Parts, now: Parts) -> list[Difference]:
    """What differs between two states of one section. A changed value is a removal and an addition."""
    found = []
    for part in sorted(frozen.keys() | now.keys()):
        before, after = set(_lines(frozen.get(part))), set(_lines(now.get(part)))
        found += [Difference(part, "-", line) for line in sorted(before - after)]
        found += [Difference(part, "+", line) for line in sorted(after - before)]
    return found


def _lines(part: Part | None) -> Iterator[str]:
    if part is None:
        return
    if not part:
        yield "(nothing)"  # a command without options is not the same as no command
    for key in part:
        yield f"{key}: {part[key]}" if isinstance(part, dict) else key


def told(section: str, found: list[Difference]) -> str:
    """The differences for people."""
    lines = []
    for number, one in enumerate(found):
        if number == 0 or found[number - 1].part != one.part:
            lines.append(f"{section} / {one.part}")
        lines.append(f"  {one.sign} {one.text}")
    return "\n".join(lines)


def failure(section: str, found: list[Difference]) -> str:
    return (
        f"Strings that users depend on differ from {FILE.name} (- removed, + added):\n\n{told(section, found)}\n\n"
        "A removal or a change is deliberate only with an entry in CHANGELOG.md: take it back, or write that entry.\n"
        f"Additions must be in the file. To write it anew: {WRITE}"
    )
