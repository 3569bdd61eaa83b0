"""The cluster changes while somebody looks."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta

from playwright.sync_api import expect

from tests.dashboard.browser import made
from tests.dashboard.browser.conftest import Show

# Read from a copy: the page's own canvas is not made to be read, and the browser would say so.
READ = """() => {
  const map = document.querySelector('.map canvas');
  const pen = new OffscreenCanvas(map.width, map.height).getContext('2d', { willReadFrequently: true });
  pen.drawImage(map, 0, 0);
  return new Uint32Array(pen.getImageData(0, 0, map.width, map.height).data.buffer);
}"""
# The box around every pixel that is not as it was, in pixels of the screen.
DIFFERENCE = f"""() => {{
  const {{ width }} = document.querySelector('.map canvas');
  let box = null;
  ({READ})().forEach((pixel, at) => {{
    if (pixel === window.before[at]) return;
    const [x, y] = [at % width, Math.floor(at / width)];
    box = box ? [Math.min(box[0], x), Math.min(box[1], y), Math.max(box[2], x), Math.max(box[3], y)] : [x, y, x, y];
  }});
  return box;
}}"""


def test_only_the_tile_of_a_node_that_changed_is_painted_anew(show: Show):
    snapshot = made.snapshot()
    shown = show(snapshot)
    shown.page.wait_for_selector(".map canvas")
    shown.page.wait_for_function("() => document.querySelector('.map canvas').width > 300")
    shown.page.evaluate(f"() => {{ window.before = ({READ})(); }}")
    ready = sum(1 for node in snapshot["nodes"].values() if node["state"] == "ready")
    record = {**snapshot["nodes"]["general-a-002"], "state": "not-ready"}
    shown.tell(nodes={"general-a-002": record})
    shown.page.wait_for_function(f"() => ({DIFFERENCE})() !== null")
    left, top, right, bottom = shown.page.evaluate(DIFFERENCE)
    assert 10 < right - left < 130
    assert 10 < bottom - top < 130
    expect(shown.page.locator(".totals")).to_contain_text(f"{ready - 1} ready")


def test_nodes_come_and_go(show: Show):
    snapshot = made.snapshot(nodes=9)
    shown = show(snapshot, "cluster?as=table")
    rows = shown.page.locator("tr[data-name]")
    expect(rows).to_have_count(9)
    _, record = made.node(random.Random(1), 0, 5, ["Deployment/shop/web"])
    shown.tell(nodes={"brand-new": record, "general-a-000": None})
    expect(shown.page.locator("tr[data-name=brand-new]")).to_have_count(1)
    expect(shown.page.locator("tr[data-name=general-a-000]")).to_have_count(0)
    expect(rows).to_have_count(9)


def test_the_snapshot_has_what_changed_while_the_table_was_shown(show: Show):
    shown = show(made.snapshot(nodes=9))
    shown.page.get_by_role("button", name="Table").click()
    expect(shown.page.locator("tr[data-name]")).to_have_count(9)
    shown.tell(nodes={"general-a-000": None, "general-b-000": None})
    expect(shown.page.locator("tr[data-name]")).to_have_count(7)
    shown.page.get_by_role("button", name="Map").click()
    expect(shown.page.locator(".map")).to_have_attribute("aria-label", re.compile("Map of 7 nodes in 3 zones"))
    shown.page.locator(".map").focus()
    told = set()
    for _ in range(8):
        shown.page.keyboard.press("ArrowRight")
        told.add(shown.page.locator("#told").inner_text().partition(":")[0])
    assert len(told) == 7
    assert "Node general-a-000" not in told


def test_a_row_that_did_not_change_keeps_the_focus(show: Show):
    snapshot = made.snapshot()
    shown = show(snapshot, "workloads")
    link = shown.page.locator("tr[data-name='Deployment/media/mailer'] a").first
    link.focus()
    changed = {**snapshot["workloads"]["Deployment/media/billing"], "why": "something else now"}
    shown.tell(workloads={"Deployment/media/billing": changed})
    expect(shown.page.get_by_text("something else now")).to_be_visible()
    expect(link).to_be_focused()


def test_pending_pods_are_counted_beside_the_name_of_their_view(show: Show):
    snapshot = made.snapshot()
    shown = show(snapshot, "pending")
    badge = shown.page.locator("nav a", has_text="Pending").locator(".badge")
    expect(badge).to_have_text("4")
    shown.tell(pending=dict.fromkeys(list(snapshot["pending"])[:3]))
    expect(badge).to_have_text("1")
    shown.tell(pending={next(iter(snapshot["pending"])): None})
    expect(badge).to_be_hidden()
    expect(shown.page.get_by_role("heading", name="No pod waits for a node")).to_be_visible()


def test_decisions_arrive_on_top(show: Show):
    shown = show(made.snapshot(), "decisions")
    at = datetime.now(UTC).isoformat()
    news = {
        "at": at,
        "controller": "placement",
        "object": "Pod/shop/web-1",
        "action": "Evict",
        "why": "news",
        "result": "done",
    }
    shown.tell(decisions=[news])
    expect(shown.page.locator(".timeline > li").first).to_contain_text("news")


def test_points_lengthen_the_history_of_a_group(show: Show):
    snapshot = made.snapshot()
    shown = show(snapshot, "groups")
    card = shown.page.locator(".card", has_text="plimsoll/general")
    group = {key: value for key, value in snapshot["groups"]["plimsoll/general"].items() if key != "history"}
    at = int(datetime.now(UTC).timestamp())
    shown.tell(groups={"plimsoll/general": {**group, "current": 77, "point": [at, 77, 76, 78]}})
    expect(card.locator(".figure").first).to_contain_text("77")
    expect(card.locator(".u-legend")).to_contain_text("76")


def test_prices_of_a_group_are_told_with_their_unit_from_when_they_are_known(show: Show):
    snapshot = made.snapshot()
    general = snapshot["groups"]["plimsoll/general"]
    unpriced = {**general, "pricePerHour": None, "history": [point[:4] for point in general["history"]]}
    snapshot["groups"]["plimsoll/general"] = unpriced
    shown = show(snapshot, "groups")
    card = shown.page.locator(".card", has_text="plimsoll/general")
    expect(card.locator(".u-legend")).to_contain_text("wanted")
    expect(card).not_to_contain_text("an hour")
    at = int(datetime.now(UTC).timestamp())
    record = {key: value for key, value in general.items() if key != "history"}
    shown.tell(groups={"plimsoll/general": {**record, "pricePerHour": 1.5, "point": [at, 9, 9, 9, 1.5]}})
    expect(card.locator(".figures")).to_contain_text("1.50an hour")
    expect(card.locator(".u-legend")).to_contain_text(re.compile(r"price an hour:?\s*1\.50"))


def test_how_long_ago_is_told_by_the_clock_of_the_cluster(show: Show):
    """A demonstration runs faster than life, and clocks of laptops are wrong."""
    snapshot = made.snapshot()
    ahead = datetime.now(UTC) + timedelta(hours=10)
    waiting = {**next(iter(snapshot["pending"].values())), "awaits": None}
    snapshot["pending"] = {"shop/late": {**waiting, "since": ahead.isoformat()}}
    shown = show(snapshot, "pending")
    expect(shown.page.locator(".records .ago")).to_have_text("in 10 h")
    shown.stage.set_clock_ahead(timedelta(hours=20))
    shown.tell(pending={"shop/late": {**snapshot["pending"]["shop/late"], "why": "still"}})
    expect(shown.page.locator(".records .ago")).to_have_text("10 h ago")
