"""Which browser the tests drive."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.browser import BrowserUnavailableError, find_browser


def program(path: Path) -> Path:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_one_that_is_named_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program(tmp_path / "chromium")
    mine = program(tmp_path / "mine")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PLIMSOLL_BROWSER", raising=False)
    assert find_browser() == tmp_path / "chromium"
    monkeypatch.setenv("PLIMSOLL_BROWSER", str(mine))
    assert find_browser() == mine


def test_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PLIMSOLL_BROWSER", raising=False)
    with pytest.raises(BrowserUnavailableError, match="make browser"):
        find_browser()
    monkeypatch.setenv("PLIMSOLL_BROWSER", "/no/such/program")
    with pytest.raises(BrowserUnavailableError, match="PLIMSOLL_BROWSER is '/no/such/program'"):
        find_browser()
