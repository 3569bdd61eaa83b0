"""The page of an operator that works: it places pods, moves them, buys nodes, and all of it is seen as it happens."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.browser.conftest import PATIENCE_MS, PICTURES
from tests.dashboard.browser.working import Working, working

PLACED, SHARE_FALLS, BURST = 0, 1, 5  # chapters of the story
WEB = "tr[data-name='Deployment/shop/web']"
READ = "() => document.querySelector('.map canvas').toDataURL()"


@pytest.fixture
def operator(browser: Browser) -> Iterator[Working]:
    with working() as process:
        yield process


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(PATIENCE_MS)
    yield page
    page.close()


def test_what_it_does_is_seen_as_it_happens(page: Page, operator: Working):
    page.goto(f"{operator.url}#/cluster")
    snapshot = page.locator(".map")
    expect(snapshot).to_have_attribute("aria-label", re.compile("Map of 12 nodes in 3 zones"))
    page.evaluate("window.loadedOnce = true")
    before = page.evaluate(READ)

    operator.chapter(PLACED)
    expect(_total(page, "Pods")).to_have_text("15")
    assert page.evaluate(READ) != before
    page.keyboard.press("w")
    expect(page.locator(f"{WEB} .shares .figures")).to_contain_text("9")
    expect(page.locator(WEB)).to_contain_text("none")

    page.keyboard.press("d")
    operator.chapter(SHARE_FALLS)
    moved = page.locator(".timeline > li", has_text="Evict").filter(has_text="done")
    expect(moved.nth(5)).to_be_visible()
    expect(moved.first).to_contain_text("placement")
    expect(moved.first.locator(".what p").nth(1)).not_to_be_empty()
    page.keyboard.press("w")
    expect(page.locator(f"{WEB} .shares .spot").last).to_contain_text("3")

    page.keyboard.press("p")
    operator.speed(0.5)  # the machines take twenty seconds of the cluster's: time enough to see who waits
    operator.chapter(BURST)
    waiting = page.locator("tr[data-name^='shop/batch-']")
    expect(waiting).to_have_count(6)
    expect(waiting.first).to_contain_text(re.compile("is feasible.* labels that the pod requires"))
    expect(waiting.first.locator("td").nth(1).locator(".ago")).to_have_text(re.compile("ago|now"))
    coming = re.compile(
        r"waits for node burst-\S+ of group shop/burst, ordered .*(ago|now), phase (Pending|Provision|Joining)"
    )
    expect(waiting.first.locator(".awaits")).to_have_text(coming)
    page.screenshot(path=PICTURES / "working-pending.png")
    operator.speed(30)
    expect(page.get_by_role("heading", name="No pod waits for a node")).to_be_visible()
    page.keyboard.press("g")
    card = page.locator(".card", has_text="shop/burst")
    expect(card.locator(".figure").nth(1)).to_have_text(re.compile(r"^[1-4]ready"))
    expect(card.locator(".u-legend")).to_contain_text("price an hour")
    page.screenshot(path=PICTURES / "working-groups.png")
    page.keyboard.press("c")
    expect(snapshot).to_have_attribute("aria-label", re.compile(r"Map of 1[3-6] nodes in 3 zones"))
    expect(_total(page, "Pods")).to_have_text("21")
    page.screenshot(path=PICTURES / "working-cluster.png")
    assert page.evaluate("window.loadedOnce") is True


def test_a_server_that_falls_silent_is_noticed_and_caught_up_with(page: Page, operator: Working):
    """A process that is stopped keeps its connections open: only the signs of life stay away."""
    page.clock.install()
    page.goto(f"{operator.url}#/workloads")
    page.wait_for_selector("body[data-connection=live]")
    os.kill(operator.pid, signal.SIGSTOP)
    page.clock.fast_forward(46_000)
    expect(page.locator("#banner")).to_contain_text("nothing was heard for 45 seconds")
    page.wait_for_selector("body[data-connection=broken]")
    # However often it tries, unanswered questions must not use up the browser's connections.
    for _ in range(8):
        page.clock.fast_forward(60_000)
    operator.chapter(PLACED)
    os.kill(operator.pid, signal.SIGCONT)
    page.wait_for_selector("body[data-connection=live]")
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator(WEB)).to_be_visible()


def _total(page: Page, title: str):
    return page.locator(".total", has=page.get_by_text(title, exact=True)).locator("strong")
