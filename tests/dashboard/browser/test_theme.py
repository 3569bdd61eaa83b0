"""Dark or light: the system's choice until somebody chooses, and theirs from then on."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.dashboard.browser import made
from tests.dashboard.browser.conftest import Show


def test_follows_the_system_until_the_switch_is_pressed_and_remembers_it(show: Show):
    page = show(made.snapshot(), theme="dark").page
    dark = _ground(page)
    page.emulate_media(color_scheme="light")
    page.wait_for_selector("html[data-theme=light]")
    light = _ground(page)
    assert light != dark
    page.get_by_role("button", name="Switch between dark and light").click()
    assert _ground(page) == dark
    page.reload()
    assert _ground(page) == dark
    page.keyboard.press("t")
    assert _ground(page) == light
    page.emulate_media(color_scheme="dark")
    # Two frames: by then the page has been told.
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert _ground(page) == light


def test_the_snapshot_is_painted_in_the_colours_of_the_theme(show: Show):
    page = show(made.snapshot()).page
    page.wait_for_function("() => document.querySelector('.map canvas').width > 300")
    before = page.evaluate("document.querySelector('.map canvas').toDataURL()")
    page.keyboard.press("t")
    assert page.evaluate("document.querySelector('.map canvas').toDataURL()") != before


def _ground(page: Page) -> str:
    colour: str = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return colour
