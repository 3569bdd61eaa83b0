"""The paths that CONTRIBUTING ("Where do I change …") and the glossary name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.written import ROOT

_PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)*(?:/|\.py|\.toml))`")


def _contributing() -> list[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    _, _, rest = text.partition("## Where do I change")
    section, _, _ = rest.partition("\n## ")
    return [path for path in _PATH.findall(section) if "/" in path or path == "pyproject.toml"]


def _rows(page: Path) -> str:
    return "\n".join(line for line in page.read_text("utf-8").splitlines() if line.startswith("| "))


def _glossary() -> list[str]:
    return [f"src/plimsoll/{path}" for path in _PATH.findall(_rows(ROOT / "docs/glossary.md"))]


def test_there_are_five_answers() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    _, _, rest = text.partition("## Where do I change")
    rows = [line for line in rest.partition("\n## ")[0].splitlines() if line.startswith("| ") and "`" in line]
    assert len(rows) == 5
    assert len(_contributing()) >= 10


@pytest.mark.parametrize("path", sorted({*_contributing(), *_glossary()}))
def test_the_path_exists(path: str) -> None:
    assert (ROOT / path.rstrip("/")).exists()
