"""`docs/decisions/index.md`, from the titles of the decisions."""

from __future__ import annotations

from pathlib import Path

DECISIONS = Path(__file__).parents[2] / "docs" / "decisions"

INTRODUCTION = """\
<!-- Generated from the titles of the pages beside it by `make docs`. -->
# Decisions

Why the house is built as it is. Each page says what was decided, what it costs, and what else was tried.

"""


def decisions_page() -> str:
    pages = sorted(DECISIONS.glob("[0-9]*.md"))
    return INTRODUCTION + "".join(f"- [{_title(page)}]({page.name})\n" for page in pages)


def _title(page: Path) -> str:
    return page.read_text("utf-8").partition("\n")[0].removeprefix("# ")
