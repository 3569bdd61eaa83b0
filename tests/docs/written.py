"""The commands and YAML documents that our pages show, each with where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]
PAGES = sorted([
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "examples").rglob("*.md"),
])  # fmt: skip
FENCE = re.compile(r"^```(?P<language>[a-z]*)\n(?P<body>.*?)^```", re.MULTILINE | re.DOTALL)
# Pages explain a command after it, set apart by spaces or as a comment.
ASIDE = re.compile(r"\s+# .*$| {2,}[^-\s|].*$")
EXAMPLES = re.compile(r"^  Examples:\n(?P<body>(?:    .*\n)+)", re.MULTILINE)


class Command(Struct, frozen=True):
    page: str
    line: int
    text: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


def commands() -> list[Command]:
    return [command for page in PAGES for command in _commands_of(page)]


def yaml_documents() -> list[Command]:
    """Every YAML block, as it stands."""
    return [
        Command(_name(page), _line(text, block.start()), block["body"])
        for page in PAGES
        for text in (page.read_text("utf-8"),)
        for block in FENCE.finditer(text)
        if block["language"] == "yaml"
    ]


def _commands_of(page: Path) -> Iterator[Command]:
    text = page.read_text("utf-8")
    for block in FENCE.finditer(text):
        body, start = block["body"], _line(text, block.start("body"))
        if block["language"] == "sh":
            yield from _lines(page, body, start)
        elif block["language"] in ("console", ""):
            typed = (line.removeprefix("$ ") if line.startswith("$ ") else "" for line in body.splitlines())
            yield from _lines(page, "\n".join(typed), start)
        elif block["language"] == "text" and (examples := EXAMPLES.search(body)):
            yield from _lines(page, examples["body"], start + body[: examples.start("body")].count("\n"))


def _lines(page: Path, body: str, start: int) -> Iterator[Command]:
    began, whole = 0, ""
    for number, line in enumerate(body.splitlines()):
        began = began if whole else number
        if line.rstrip().endswith("\\"):
            whole += line.rstrip().removesuffix("\\").strip() + " "
            continue
        whole += line.strip()
        text = ASIDE.sub("", whole).strip()
        whole = ""
        if text and not text.startswith("#"):
            yield Command(_name(page), start + began, text)


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
