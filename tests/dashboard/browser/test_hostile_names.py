"""Names that an attacker chose, or a careless template: shown as they are, and never more than text."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.dashboard.browser import made
from tests.dashboard.browser.conftest import NARROW, VIEWS, WIDE, Show


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_names_are_text_in_every_view(show: Show, size: tuple[int, int]):
    shown = show(made.hostile(), size=size)
    for view in (*VIEWS, "cluster?as=table"):
        page = shown.go(view)
        page.wait_for_selector("main")
        shown.keep_screenshot(f"hostile-{view.partition('?')[0]}-{size[0]}")
        assert (
            page.evaluate("document.querySelectorAll('main script, main img, main iframe, aside script').length") == 0
        )
        assert page.title() != "owned"
        assert page.evaluate("document.scrollingElement.scrollWidth") <= size[0], view
    page = shown.go("workloads")
    expect(page.get_by_role("link", name=made.MARKUP)).to_be_visible()
    expect(page.get_by_role("link", name="shop-🛟🏳️‍🌈-שלום")).to_be_visible()
    assert page.get_by_text(made.LONGEST).count() > 0


def test_letters_that_turn_the_text_around_are_made_visible(show: Show):
    shown = show(made.hostile(), "workloads")
    expect(shown.page.get_by_role("link", name="web-⟨U+202E⟩gnp.exe-⟨U+2066⟩x")).to_be_visible()
    assert "\u202e" not in shown.page.locator("main").inner_text()


def test_details_of_such_an_object_can_be_asked_for(show: Show):
    shown = show(made.hostile(), "cluster?as=table")
    shown.page.get_by_role("link", name=made.MARKUP).first.click()
    expect(shown.page.locator("aside h2")).to_have_text(f"Node {made.MARKUP}")
    expect(shown.page.locator("aside .answer .sentence")).to_contain_text(f"{made.MARKUP} may not move now")
