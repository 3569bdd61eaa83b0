"""Everything without a mouse."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.dashboard.browser import made
from tests.dashboard.browser.conftest import VIEWS, Show, Shown

NUMBER_THEM = """() => {
  const found = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")];
  const seen = found.filter((one) => one.checkVisibility());
  seen.forEach((one, number) => { one.dataset.number = number; });
  return seen.length;
}"""


def test_arrows_go_from_node_to_node_and_tell_each(show: Show):
    shown = show(made.snapshot())
    page, told = shown.page, shown.page.locator("#told")
    page.locator(".map").focus()
    page.keyboard.press("ArrowRight")
    expect(told).to_have_text(r"Node burst-spot-a-000: ready, spot, zone eu-west-1a, group plimsoll/burst-spot, "
                              f"CPU {_percent(shown, 'burst-spot-a-000', 'cpu')} % requested, "
                              f"memory {_percent(shown, 'burst-spot-a-000', 'memory')} %, "
                              f"{_pods(shown, 'burst-spot-a-000')} pods")  # fmt: skip
    page.keyboard.press("ArrowRight")
    expect(told).to_contain_text("Node burst-spot-a-001:")
    page.keyboard.press("ArrowLeft")
    expect(told).to_contain_text("Node burst-spot-a-000:")
    page.keyboard.press("ArrowDown")
    expect(told).not_to_contain_text("Node burst-spot-a-000:")
    page.keyboard.press("ArrowUp")
    expect(told).to_contain_text("Node burst-spot-a-000:")
    page.keyboard.press("End")
    expect(told).to_contain_text("Node memory-spot-c-003:")
    page.keyboard.press("Home")
    page.keyboard.press("]")
    expect(told).to_contain_text(f"1 of {_pods(shown, 'burst-spot-a-000')} on burst-spot-a-000")


def test_enter_opens_the_details_and_escape_returns(show: Show):
    page = show(made.snapshot()).page
    page.locator(".map").focus()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(page.locator("aside h2")).to_have_text("Node burst-spot-a-000")
    expect(page.locator("aside h2")).to_be_focused()
    expect(page.locator("aside .answer .sentence")).to_contain_text("burst-spot-a-000 may not move now")
    page.keyboard.press("Escape")
    expect(page.locator("aside")).to_be_hidden()
    expect(page.locator(".map")).to_be_focused()


def test_letters_choose_views_and_a_list_tells_them(show: Show):
    page = show(made.snapshot()).page
    for key, title in (("w", "Workloads"), ("g", "Node groups"), ("p", "Pending pods"), ("a", "Drives and ports"),
                       ("d", "Decisions"), ("c", "Cluster")):  # fmt: skip
        page.keyboard.press(key)
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("move between nodes")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_signs_bring_the_snapshot_closer_and_back(show: Show):
    page = show(made.snapshot(nodes=600)).page
    page.locator(".map").focus()
    page.keyboard.press("+")
    page.wait_for_selector(".map.close")
    page.keyboard.press("-")
    page.wait_for_selector(".map:not(.close)")
    page.keyboard.press("+")
    page.keyboard.press("+")
    page.keyboard.press("0")
    page.wait_for_selector(".map:not(.close)")


def test_letters_in_the_filter_are_letters(show: Show):
    page = show(made.snapshot()).page
    page.keyboard.press("/")
    page.keyboard.type("web")
    expect(page.locator("#filter")).to_have_value("web")
    expect(page.get_by_role("heading", level=1)).to_have_text("Cluster")


def _pods(shown: Shown, name: str) -> int:
    return len(shown.stage.snapshot["nodes"][name]["pods"])


def _percent(shown: Shown, name: str, resource: str) -> int:
    part, whole = shown.stage.snapshot["nodes"][name][resource]
    return round(100 * int(part) / int(whole))


@pytest.mark.parametrize("where", [*VIEWS, "cluster?as=table&show=node/general-a-000"])
def test_tab_reaches_everything_that_can_be_pressed(show: Show, where: str):
    page = show(made.snapshot(nodes=9), where).page
    page.wait_for_selector("main h1")
    page.wait_for_function("() => document.querySelectorAll('main a, main button, main [tabindex]').length > 1")
    if "show=" in where:
        page.wait_for_selector("aside .guards")
    count = page.evaluate(NUMBER_THEM)
    page.evaluate("document.activeElement.blur()")
    missed = {str(number) for number in range(count)}
    # Boxes that scroll take the focus as well, and past the last element it begins anew.
    for _ in range(2 * count + 10):
        page.keyboard.press("Tab")
        missed.discard(page.evaluate("document.activeElement.dataset.number"))
        if not missed:
            break
    assert missed == set()
