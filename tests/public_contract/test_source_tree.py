"""A text is found in the source whatever the names on the way to it are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.public_contract.source_tree import SourceTree

CODES = """
PREFIX = "example.io/"
LATE, GONE = "Late", "Gone"


class Reason:
    code: str
    message: str


class State:
    OPEN = "Open"


DENIED = Reason("Denied", "no")
"""
USES = """
from package import codes
from package.codes import DENIED, GONE, PREFIX, Reason, State

KEY = PREFIX + "enabled"


def plain(x):
    return Reason("Plain", f"{x} is plain")


def either(x):
    return Reason(GONE if x else codes.LATE, "")


def handed_on(code, message):
    return Reason(code, message)


def callers():
    handed_on("First", "")
    handed_on(message="", code="Second")
    for size in ("Min", "Max"):
        Reason(f"At{size}", "")
    Reason(State.OPEN.value, "")
    Reason(DENIED.code, "")
    Reason(f"Of{unknown()}", "")


def circular(code):
    code = code or "Third"
    return circular(code) or Reason(code, "")
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source") / "package"
    root.mkdir()
    (root / "__init__.py").write_text("")
    (root / "codes.py").write_text(CODES)
    (root / "uses.py").write_text(USES)
    return root


def test_every_way_to_a_text_is_followed(package: Path) -> None:
    found = SourceTree(package).arguments("Reason", "code", 0)
    assert found >= {"Plain", "Gone", "Late", "First", "Second", "AtMin", "AtMax", "Open", "Denied", "Of*"}


def test_a_rename_of_everything_but_the_texts_changes_nothing(package: Path, tmp_path: Path) -> None:
    renamed = tmp_path / "package"
    renamed.mkdir()
    (renamed / "__init__.py").write_text("")
    for name, text in (("reasons.py", CODES), ("deep.py", USES)):
        for old, new in (
            ("codes", "reasons"),
            ("GONE", "LEFT"),
            ("handed_on", "passed"),
            ("State", "Phase"),
            ("PREFIX", "P"),
        ):
            text = text.replace(old, new)  # noqa: PLW2901
        (renamed / name).write_text(text)
    before, after = SourceTree(package), SourceTree(renamed)
    assert before.arguments("Reason", "code", 0) == after.arguments("Reason", "code", 0)


def test_parts_are_put_together(package: Path) -> None:
    tree = SourceTree(package)
    module = tree.modules["package.uses"]
    (key,) = module.constants["KEY"]
    assert tree.texts(key, module) == {"example.io/enabled"}
