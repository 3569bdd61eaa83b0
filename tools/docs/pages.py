"""Which pages are generated, and whether those on disk are what the code says now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tools.docs.cli import cli_page
from tools.docs.configuration import configuration_page

PAGES: Mapping[str, Callable[[], str]] = {
    "configuration.md": configuration_page,
    "cli.md": cli_page,
}


def write(docs: Path) -> None:
    for name, page in PAGES.items():
        (docs / name).write_text(page(), "utf-8")


def stale(docs: Path) -> list[str]:
    """The pages that are missing or differ."""
    return [
        name
        for name, page in PAGES.items()
        if not (docs / name).is_file() or (docs / name).read_text("utf-8") != page()
    ]
