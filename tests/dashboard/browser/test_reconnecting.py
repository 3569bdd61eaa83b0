"""The operator goes away and returns: the page says so, keeps what it has, and comes back by itself."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.dashboard.browser import made
from tests.dashboard.browser.barriers import barriers
from tests.dashboard.browser.conftest import Show


def test_says_that_it_is_not_live_and_shows_the_new_snapshot_when_it_can(show: Show):
    shown = show(made.snapshot(nodes=9), "cluster?as=table")
    page = shown.page
    expect(page.locator("tr[data-name]")).to_have_count(9)
    expect(page.locator("#banner")).to_be_hidden()

    shown.stage.leave()
    expect(page.locator("#banner")).to_be_visible()
    expect(page.locator("#banner")).to_contain_text("Not live.")
    expect(page.locator("#banner")).to_contain_text("the server does not answer")
    expect(page.locator("footer")).to_contain_text("not live")
    expect(page.locator("tr[data-name]")).to_have_count(9)
    shown.keep_screenshot("not-live")
    assert barriers(page) == []

    shown.stage.come_back(made.snapshot(nodes=12))
    page.get_by_role("button", name="Try now").click()
    expect(page.locator("tr[data-name]")).to_have_count(12)
    expect(page.locator("#banner")).to_be_hidden()
    # The browser itself reports every refused connection; those are what this test is about.
    shown.complaints = [one for one in shown.complaints if "net::ERR_" not in one]


def test_tries_again_without_being_asked(show: Show):
    shown = show(made.snapshot(nodes=9), "cluster?as=table")
    shown.stage.leave()
    shown.page.wait_for_selector("body[data-connection=broken]")
    shown.stage.come_back(made.snapshot(nodes=12))
    expect(shown.page.locator("tr[data-name]")).to_have_count(12)
    shown.page.wait_for_selector("body[data-connection=live]")
    shown.complaints = [one for one in shown.complaints if "net::ERR_" not in one]
