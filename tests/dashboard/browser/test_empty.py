"""Where there is nothing to show, the page says what to do."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.dashboard.browser import made
from tests.dashboard.browser.barriers import barriers
from tests.dashboard.browser.conftest import Show


@pytest.mark.parametrize(
    ("view", "advice"),
    [
        ("cluster", "kubectl get nodes"),
        ("workloads", "spotalis.io/enabled"),
        ("groups", "controllers.enabled"),
        ("pending", "Every pod that wants a node has one"),
        ("allocations", "controllers.enabled"),
        ("decisions", "appears here with its reason"),
    ],
)
def test_says_what_to_do(show: Show, view: str, advice: str):
    shown = show(made.empty(controllers=["placement"]), view)
    expect(shown.page.locator(".empty")).to_contain_text(advice)
    shown.keep_screenshot(f"empty-{view}")
    assert barriers(shown.page) == []
