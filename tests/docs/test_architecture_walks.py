"""Every file and function that the walks of the architecture page name exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text("utf-8")
WALKS = PAGE.split("## Four walks through the code", 1)[1].split("\n## ", 1)[0]
STEPS = re.findall(r"`([\w/]+\.py)` → `(\w+)`", WALKS)
FILES = re.findall(r"`([\w/]+\.py)`", WALKS)


def functions_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_there_are_four_walks_of_several_steps():
    walks = re.split(r"^### ", WALKS, flags=re.MULTILINE)[1:]
    assert len(walks) == 4
    assert all(len(re.findall(r"^\d+\. `", walk, re.MULTILINE)) >= 6 for walk in walks)


@pytest.mark.parametrize("file", sorted(set(FILES)))
def test_every_file_exists(file: str):
    assert (ROOT / "src/plimsoll" / file).is_file()


@pytest.mark.parametrize(("file", "function"), sorted(set(STEPS)))
def test_every_function_exists(file: str, function: str):
    assert function in functions_in(ROOT / "src/plimsoll" / file)
