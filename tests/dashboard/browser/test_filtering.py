"""One box filters every view, and the address carries it to a colleague."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.dashboard.browser import made
from tests.dashboard.browser.conftest import Show


@pytest.mark.parametrize(
    ("view", "rows", "words", "left"),
    [
        ("workloads", "tr[data-name]", "billing media", 1),
        ("groups", ".card", "memory", 1),
        ("pending", "tr[data-name]", "checkout 00002", 1),
        ("allocations", "tr[data-name]", "general-a", 1),
        ("cluster?as=table", "tr[data-name]", "eu-west-1a general", 5),
    ],
)
def test_leaves_what_matches_every_word(show: Show, view: str, rows: str, words: str, left: int):
    page = show(made.snapshot(), view).page
    page.wait_for_selector(f"{rows} >> nth=1")
    page.fill("#filter", words)
    expect(page.locator(rows)).to_have_count(left)
    page.reload()
    expect(page.locator("#filter")).to_have_value(words)
    expect(page.locator(rows)).to_have_count(left)
    page.fill("#filter", "no such thing")
    expect(page.locator(".empty")).to_contain_text("Clear the filter")


def test_dims_the_rest_of_the_snapshot(show: Show):
    page = show(made.snapshot()).page
    page.wait_for_function("() => document.querySelector('.map canvas').width > 300")
    before = page.evaluate("document.querySelector('.map canvas').toDataURL()")
    page.fill("#filter", "general-b")
    assert page.evaluate("document.querySelector('.map canvas').toDataURL()") != before
    page.keyboard.press("Escape")
    expect(page.locator("#filter")).to_have_value("")
    assert page.evaluate("document.querySelector('.map canvas').toDataURL()") == before


def test_decisions_by_result_and_controller(show: Show):
    page = show(made.snapshot(), "decisions").page
    page.get_by_role("button", name="Failed").click()
    for text in page.locator(".timeline .result").all_inner_texts():
        assert text.startswith("failed")
    page.get_by_role("button", name="All", exact=True).click()
    page.get_by_label("Which controller").select_option("deletion-cost")
    assert set(page.locator(".timeline .chip").all_inner_texts()) == {"deletion-cost"}


def test_workloads_by_what_ails_them(show: Show):
    page = show(made.snapshot(), "workloads").page
    page.get_by_role("button", name="With errors").click()
    expect(page.locator("tr[data-name]")).to_have_count(1)
    expect(page.locator("tr[data-name]")).to_contain_text("must end with %")


def test_headings_sort(show: Show):
    page = show(made.snapshot(), "cluster?as=table").page
    page.get_by_role("button", name="Pods").click()
    pods = [int(text) for text in page.locator("tr[data-name] td:last-child").all_inner_texts()]
    assert pods == sorted(pods, reverse=True)
    page.get_by_role("button", name="Pods").click()
    assert [int(text) for text in page.locator("tr[data-name] td:last-child").all_inner_texts()] == sorted(pods)


def test_evictions_alone(show: Show):
    page = show(made.snapshot(), "decisions").page
    page.wait_for_selector(".timeline > li >> nth=1")
    page.get_by_role("button", name="Evictions").click()
    actions = page.locator(".timeline .what strong")
    expect(actions.first).to_be_visible()
    assert set(actions.all_inner_texts()) == {"Evict"}
