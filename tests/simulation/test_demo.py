"""`plimsoll demo --once`: the README's main command ends in proof."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.command import plimsoll


def played(*arguments: str) -> dict[str, Any]:
    result = plimsoll("demo", "--once", "-o", "json", *arguments)
    assert result.exit_code == 0, result.stdout + result.stderr
    whole: dict[str, Any] = json.loads(result.stdout)
    return whole


@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_every_chapter_comes_to_its_end_and_no_rule_is_broken(seed: str):
    whole = played("--seed", seed)
    assert [one["title"] for one in whole["chapters"] if not one["reached"]] == []
    assert whole["violations"] == []
    assert whole["mostEvictionsOfOnePod"] <= 1
    evictions = {one["title"].split(",")[0]: one["evictions"] for one in whole["chapters"]}
    assert evictions["Fifteen replicas at once"] == 0
    assert evictions["The share falls from 60 % to 20 %"] == 6
    assert evictions["Scaled down to 5"] == 0


def test_the_summary_is_for_people():
    told = plimsoll("demo", "--once").stdout
    assert told.count("✓") == 6
    assert "none of a pod twice" in told
