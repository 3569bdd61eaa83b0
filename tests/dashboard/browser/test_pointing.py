"""The mouse on the snapshot."""

from __future__ import annotations

from playwright.sync_api import Position, expect

from tests.dashboard.browser import made
from tests.dashboard.browser.conftest import Show

# Inside the first tile of the first group, below its name: the first pod.
FIRST_POD = Position(x=20, y=66)
FIRST_NODE_NAME = Position(x=60, y=50)


def test_tells_what_is_under_the_pointer_and_opens_it(show: Show):
    shown = show(made.snapshot())
    page = shown.page
    pod, workload, *_ = shown.stage.snapshot["nodes"]["burst-spot-a-000"]["pods"][0]
    page.locator(".map").hover(position=FIRST_POD)
    expect(page.locator(".hint")).to_contain_text(pod)
    expect(page.locator(".hint")).to_contain_text("burst-spot-a-000")
    page.locator(".map").click(position=FIRST_POD)
    expect(page.locator("aside h2")).to_have_text(f"Pod {workload.split('/')[1]}/{pod}")
    page.get_by_role("button", name="Close the details").click()
    page.locator(".map").click(position=FIRST_NODE_NAME)
    expect(page.locator("aside h2")).to_have_text("Node burst-spot-a-000")


def test_the_hint_goes_with_the_pointer(show: Show):
    page = show(made.snapshot()).page
    page.locator(".map").hover(position=FIRST_POD)
    expect(page.locator(".hint")).to_be_visible()
    page.locator("h1").hover()
    expect(page.locator(".hint")).to_be_hidden()


def test_comes_closer_and_goes_back(show: Show):
    page = show(made.snapshot(nodes=600)).page
    before = _pixels(page)
    page.get_by_role("button", name="Closer (+)").click()
    page.wait_for_selector(".map.close")
    assert _pixels(page) != before
    page.get_by_role("button", name="Everything (0)").click()
    page.wait_for_selector(".map:not(.close)")
    assert _pixels(page) == before


def _pixels(page) -> str:
    pixels: str = page.evaluate("document.querySelector('.map canvas').toDataURL()")
    return pixels
