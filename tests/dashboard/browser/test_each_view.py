"""Every view, in both themes, wide and narrow: it shows its snapshot, and axe finds nothing that would shut anyone out."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.dashboard.browser import made
from tests.dashboard.browser.barriers import barriers
from tests.dashboard.browser.conftest import NARROW, VIEWS, Show, Theme

SOMETHING = {
    "attention": "tr[data-name]",
    "cluster": ".map canvas",
    "workloads": "tr[data-name]",
    "groups": ".card .u-over",
    "pending": "tr[data-name]",
    "allocations": ".drive.committed",
    "decisions": ".timeline > li",
}
THEMES: tuple[Theme, ...] = ("light", "dark")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("view", VIEWS)
def test_shows_its_snapshot_to_everyone(show: Show, view: str, theme: Theme):
    shown = show(made.snapshot(), view, theme=theme)
    shown.page.wait_for_selector(f"main {SOMETHING[view]} >> nth=0")
    expect(shown.page.locator("nav [aria-current=page]")).to_have_count(1)
    shown.keep_screenshot(f"{view}-{theme}")
    assert barriers(shown.page) == []


@pytest.mark.parametrize("theme", THEMES)
def test_the_table_of_nodes_and_the_details_do_so_too(show: Show, theme: Theme):
    shown = show(made.snapshot(), "cluster?as=table&show=workload/Deployment/media/billing", theme=theme)
    shown.page.wait_for_selector("tr[data-name] >> nth=0")
    shown.page.wait_for_selector("aside .guards")
    shown.keep_screenshot(f"details-{theme}")
    assert barriers(shown.page) == []


@pytest.mark.parametrize("theme", THEMES)
def test_nothing_is_cut_off_on_a_narrow_screen(show: Show, theme: Theme):
    shown = show(made.snapshot(), theme=theme, size=NARROW)
    for view in VIEWS:
        page = shown.go(view)
        page.wait_for_selector(f"main {SOMETHING[view]} >> nth=0")
        shown.keep_screenshot(f"{view}-{theme}-narrow")
        assert page.evaluate("document.scrollingElement.scrollWidth") <= NARROW[0], view
        assert barriers(page) == [], view


@pytest.mark.parametrize(
    "subject", ["node/burst-spot-a-000", "group/plimsoll/general", "pod/shop/checkout-6f7d9-00001"]
)
def test_details_of_every_kind_do_so_too(show: Show, subject: str):
    shown = show(made.snapshot(), f"decisions?show={subject}")
    shown.page.wait_for_selector("aside .guards")
    shown.keep_screenshot(f"details-{subject.partition('/')[0]}-light")
    expect(shown.page.locator(".timeline a", has_text="NodeGroup/plimsoll/general").first).to_be_visible()
    assert barriers(shown.page) == []


def test_a_pod_that_waits_says_which_node_is_coming_for_it(show: Show):
    shown = show(made.snapshot(), "pending?show=pod/shop/checkout-6f7d9-00000")
    row = shown.page.locator("tr[data-name='shop/checkout-6f7d9-00000'] .awaits")
    words = re.compile(
        "node general-a-9c1f0-7 of group plimsoll/general, ordered \\d+ (s|min) ago, phase Provisioning$"
    )
    expect(row).to_have_text(words)
    expect(row.get_by_role("link")).to_have_count(2)
    expect(shown.page.locator("aside dd", has_text=words)).to_have_count(1)
    others = shown.page.locator("tr[data-name='shop/checkout-6f7d9-00001'] .awaits")
    expect(others).to_have_text("waits for a new node of group plimsoll/general, which is not ordered yet")
    expect(shown.page.locator(".awaits")).to_have_count(2)


@pytest.mark.parametrize("theme", THEMES)
def test_the_list_of_keys_does_so_too(show: Show, theme: Theme):
    shown = show(made.snapshot(), "pending", theme=theme)
    shown.page.keyboard.press("?")
    shown.page.wait_for_selector("dialog[open]")
    assert barriers(shown.page) == []


def test_the_details_cover_a_narrow_screen_and_can_be_closed(show: Show):
    shown = show(made.snapshot(), "workloads", size=NARROW)
    shown.page.locator("tr[data-name] a").first.click()
    box = shown.page.locator("aside").bounding_box()
    assert box is not None and box["width"] == NARROW[0]
    shown.page.get_by_role("button", name="Close the details").click()
    expect(shown.page.locator("aside")).to_be_hidden()
