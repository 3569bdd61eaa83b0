"""What axe finds that would shut someone out."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

_AXE = Path(__file__).parent / "axe" / "axe.min.js"
# Of a long list the first will do: what is wrong with a row is wrong with each of its sort, and axe takes its time over every one.
_AND_SO_ON = [[f"{rows}:nth-child(n+16)"] for rows in ("tr[data-name]", ".timeline > li", ".pods > li")]


def barriers(page: Page) -> list[str]:
    """Everything that it objects to, of whatever weight."""
    page.evaluate(_AXE.read_text(encoding="utf-8"))
    asked = "exclude => axe.run({include: [['html']], exclude}, {resultTypes: ['violations']})"
    found = page.evaluate(asked, _AND_SO_ON)
    return [
        f"{one['id']} ({one['impact']}): {node['html']} {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
    ]
