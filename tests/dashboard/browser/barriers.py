"""What axe finds that would shut someone out."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

_AXE = Path(__file__).parent / "axe" / "axe.min.js"


def barriers(page: Page) -> list[str]:
    """Everything that it objects to, of whatever weight."""
    page.evaluate(_AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']} ({one['impact']}): {node['html']} {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
    ]
