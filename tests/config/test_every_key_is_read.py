"""A key stands in the tree only if something outside of it reads it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import plimsoll
from plimsoll.config.settings import SETTINGS, Setting

SOURCE = Path(plimsoll.__file__).parent


@cache
def attributes_read() -> set[str]:
    files = [file for file in SOURCE.rglob("*.py") if SOURCE / "config" not in file.parents]
    return {
        node.attr
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_it_and_every_section_above_it(setting: Setting) -> None:
    assert set(setting.attributes) <= attributes_read()
