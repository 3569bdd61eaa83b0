"""A real browser before a dashboard. Where there is none the tests are skipped with the reason; where CI=true they fail.

def test_something(show):
    page = show(made.snapshot(), "workloads")                   the page, live, in that view
    page.stage.tell(nodes={"a": None})                         the cluster changes
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, expect, sync_playwright

from tests.dashboard.browser.stage import Stage
from tools.browser import BrowserUnavailableError, find_browser

ROOT = Path(__file__).parents[3]
PICTURES = ROOT / "artifacts" / "dashboard"
VIEWS = ("attention", "cluster", "workloads", "groups", "pending", "allocations", "decisions")
WIDE = (1440, 900)
NARROW = (360, 740)
# The machine may be ten times slower than usual: a condition that is never met is the failure, not one that comes late.
PATIENCE_MS = 90_000

expect.set_options(timeout=PATIENCE_MS)

Theme = Literal["light", "dark"]


# First, because the selection by `-m` is made by the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("process")


# For this package alone: Playwright keeps an event loop running in the main thread for as long as it is open.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    try:
        program = find_browser()
    except BrowserUnavailableError as error:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    with sync_playwright() as playwright:
        # Without its sandbox, which needs rights that containers seldom give; it loads our own pages only. All in one process: it
        # would take a new one for every site, and keep another in reserve.
        browser = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", "--disable-site-isolation-trials", "--renderer-process-limit=1"],
        )
        yield browser
        browser.close()


class Windows:
    """Pages that wait for the next test: each new one takes three processes, and seconds of theirs before it shows anything."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._idle: list[Page] = []

    def open(self, size: tuple[int, int], theme: Theme) -> Page:
        page = self._idle.pop() if self._idle else self._browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        return page

    def leave(self, page: Page) -> None:
        """Stages are told apart by their port, and a port may come again: nothing stays that the next could remember."""
        page.evaluate("localStorage.clear(), sessionStorage.clear()")
        page.mouse.move(0, 0)
        page.goto("about:blank")
        self._idle.append(page)


@pytest.fixture(scope="package")
def windows(browser: Browser) -> Windows:
    return Windows(browser)


class Shown:
    """A page that shows a stage."""

    def __init__(self, page: Page, stage: Stage) -> None:
        self.page = page
        self.stage = stage
        self.complaints: list[str] = []
        page.on("console", self._heard)
        page.on("pageerror", self._failed)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.type}: {message.text}")

    def _failed(self, error: Error) -> None:
        self.complaints.append(str(error))

    def close(self, windows: Windows) -> None:
        self.page.remove_listener("console", self._heard)
        self.page.remove_listener("pageerror", self._failed)
        windows.leave(self.page)
        self.stage.close()

    def go(self, where: str) -> Page:
        """To a view, with the snapshot in it."""
        self.page.goto(f"{self.stage.url}#/{where}")
        self.page.wait_for_selector("body[data-connection=live][data-version]")
        return self.page

    def tell(self, **change: Any) -> None:
        """A change, as soon as the page has it."""
        version = self.stage.tell(**change)
        self.page.wait_for_function("version => Number(document.body.dataset.version) >= version", arg=version)

    def keep_screenshot(self, name: str) -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=PICTURES / f"{name}.png")


Show = Callable[..., Shown]


@pytest.fixture
def show(windows: Windows) -> Iterator[Show]:
    """Shows a snapshot in a window of the test's; at the end no page may have complained, about its security policy or anything."""
    opened: list[Shown] = []

    def start(
        snapshot: dict[str, Any], where: str = "cluster", *, theme: Theme = "light", size: tuple[int, int] = WIDE
    ) -> Shown:
        shown = Shown(windows.open(size, theme), Stage(snapshot))
        opened.append(shown)
        shown.go(where)
        return shown

    yield start
    for shown in opened:
        shown.close(windows)
    assert [complaint for shown in opened for complaint in shown.complaints] == []
