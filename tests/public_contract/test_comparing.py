"""What the comparison notices, and what the file keeps."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest

from tests.public_contract import write
from tests.public_contract.contract import FILE, Deprecated, differences, failure, read, read_deprecated, written
from tests.public_contract.sections import Parts

FROZEN: Parts = {"metrics": {"plimsoll_blocked": "gauge(code)"}, "alerts": ["Down", "Stale"], "nothing": {}}


def changes(now: Parts) -> list[str]:
    return [f"{one.part} {one.sign} {one.text}" for one in differences(FROZEN, now)]


def test_what_is_the_same_does_not_differ() -> None:
    assert changes({"alerts": ["Stale", "Down"], "metrics": {"plimsoll_blocked": "gauge(code)"}, "nothing": {}}) == []


def test_a_removal_an_addition_and_a_rename_are_noticed() -> None:
    assert changes({**FROZEN, "alerts": ["Down"]}) == ["alerts - Stale"]
    assert changes({**FROZEN, "alerts": ["Down", "Late", "Stale"]}) == ["alerts + Late"]
    assert changes({**FROZEN, "alerts": ["Down", "Old"]}) == ["alerts - Stale", "alerts + Old"]


def test_a_changed_value_is_a_removal_and_an_addition() -> None:
    assert changes({**FROZEN, "metrics": {"plimsoll_blocked": "gauge(reason)"}}) == [
        "metrics - plimsoll_blocked: gauge(code)",
        "metrics + plimsoll_blocked: gauge(reason)",
    ]


def test_a_part_that_goes_or_comes_is_noticed_even_if_it_is_empty() -> None:
    assert changes({"alerts": FROZEN["alerts"], "metrics": FROZEN["metrics"]}) == ["nothing - (nothing)"]
    assert changes({**FROZEN, "more": []}) == ["more + (nothing)"]


def test_every_string_of_the_real_contract_is_missed_if_it_is_renamed() -> None:
    contract = read(FILE.read_text("utf-8"))
    for parts in contract.values():
        for part, found in parts.items():
            for key in found:
                changed = deepcopy(found)
                if isinstance(changed, dict):
                    changed[f"{key}-renamed"] = changed.pop(key)
                else:
                    changed[changed.index(key)] = f"{key}-renamed"
                signs = [one.sign for one in differences({part: found}, {part: changed})]
                assert signs == ["-", "+"], key


def test_a_failure_says_what_differs_and_what_to_do() -> None:
    told = failure("metrics", differences(FROZEN, {**FROZEN, "alerts": ["Down", "Old"]}))
    assert "metrics / alerts\n  - Stale\n  + Old\n" in told
    assert "CHANGELOG.md" in told
    assert "python -m tests.public_contract.write" in told


def test_the_file_is_as_it_would_be_written() -> None:
    text = FILE.read_text("utf-8")
    assert written(read(text), read_deprecated(text)) == text


def test_writing_tells_the_difference_and_keeps_what_is_deprecated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "contract.yaml"
    deprecated = [Deprecated("plimsoll.dev/old", "plimsoll.dev/new", "0.2")]
    file.write_text(written({"metrics": FROZEN}, deprecated))
    monkeypatch.setattr(write, "current", lambda: {"metrics": {**FROZEN, "alerts": ["Down", "Old"]}})
    assert write.write(file) == "metrics / alerts\n  - Stale\n  + Old"
    assert read_deprecated(file.read_text()) == deprecated
    assert write.write(file) == ""


def test_a_deprecated_string_names_its_successor_and_its_end() -> None:
    with pytest.raises(ValueError, match="expected the keys old, new and readable until"):
        read_deprecated("deprecated: [{old: a}]")
