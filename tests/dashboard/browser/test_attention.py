"""The first view lists what needs attention in order of harm, and the overview counts drift."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.sync_api import expect

from tests.dashboard.browser import made
from tests.dashboard.browser.conftest import Show


def workload(spot: int, target: int, *, errors: list[str] | None = None, blocked: bool = False) -> dict[str, Any]:
    blocker = {"code": "WindowClosed", "words": "the disruption window is closed"}
    return {
        "target": {"spot": target, "onDemand": 10 - target}, "current": {"spot": spot, "onDemand": 10 - spot},
        "action": "none", "why": "", "blockers": [blocker] if blocked else [], "errors": errors or [], "deletionOrder": None,
        "replicas": 10,
    }  # fmt: skip


def drifted() -> dict[str, Any]:
    """Seven workloads have drifted, and not one pod is on a node of the wrong class: the pods are where they were sent."""
    whole = made.empty()
    whole["workloads"] = {f"Deployment/shop/web-{index}": workload(7, 5) for index in range(7)}
    whole["workloads"]["Deployment/shop/settled"] = workload(5, 5)
    whole["nodes"] = {
        "n1": {
            "zone": "a", "group": "", "class": "spot", "state": "ready", "cpu": [1, 2], "memory": [1, 2],
            "pods": [["web-0-x", "Deployment/shop/web-0", "r"]],
        }
    }  # fmt: skip
    return whole


def test_the_overview_counts_drift(show: Show):
    page = show(drifted(), "cluster").page
    figure = page.locator(".total", has_text="Drifted")
    expect(figure).to_contain_text("7")
    expect(figure).to_contain_text("14 replicas to move")
    expect(page.locator(".totals")).not_to_contain_text("belong")


def test_the_overview_says_when_nothing_has_drifted(show: Show):
    whole = made.empty()
    whole["workloads"] = {"Deployment/shop/web": workload(5, 5)}
    whole["nodes"] = drifted()["nodes"]
    page = show(whole, "cluster").page
    expect(page.locator(".total", has_text="Drifted")).to_contain_text("every workload is at its target")


def test_what_needs_attention_comes_in_order_of_harm_with_what_to_do(show: Show):
    now = datetime.now(UTC)
    whole = made.empty(now=now)
    whole["workloads"] = {
        "Deployment/shop/moving": workload(7, 5),
        "Deployment/shop/blocked": workload(7, 5, blocked=True),
        "Deployment/shop/wrong": workload(
            7, 5, errors=['spotalis.io/spot-percentage is "many"; expected a percentage']
        ),
        "Deployment/shop/settled": workload(5, 5),
    }
    whole["pending"] = {
        "shop/stuck": {
            "since": (now - timedelta(minutes=3)).isoformat(),
            "why": "0/3 nodes fit",
            "awaits": None,
            "tried": [],
        }
    }
    whole["decisions"] = [
        {
            "at": now.isoformat(), "controller": "placement", "object": "Deployment/shop/moving", "action": "evict",
            "why": "x", "result": "failed: timeout",
        }
    ]  # fmt: skip
    page = show(whole, "").page
    rows = page.locator("main tr[data-name]")
    expect(rows).to_have_count(5)
    kinds = [text.strip() for text in page.locator("main tr[data-name] td:first-child").all_inner_texts()]
    assert kinds == ["invalid", "failing", "unschedulable", "blocked", "drifted"]
    expect(rows.nth(0)).to_contain_text("Fix the annotation")
    expect(rows.nth(2)).to_contain_text("0/3 nodes fit")
    expect(rows.nth(3)).to_contain_text("Resolve WindowClosed")
    expect(rows.nth(4)).to_contain_text("the operator moves pods step by step")
    expect(page.locator("nav a", has_text="Attention").locator(".badge")).to_have_text("4")


def test_nothing_needs_attention(show: Show):
    page = show(made.empty(), "attention").page
    expect(page.locator(".empty")).to_contain_text("Nothing needs attention")


def test_the_cluster_is_named_in_the_page_and_in_its_title(show: Show):
    page = show(made.empty(), "attention").page
    expect(page.locator("#cluster-name")).to_have_text("production-eu")
    expect(page).to_have_title("Attention · production-eu · Plimsoll")


def test_times_are_in_24_hours_with_a_zone(show: Show):
    whole = made.empty()
    whole["pending"] = {"shop/x": {"since": "2026-01-31T15:04:05Z", "why": "w", "awaits": None, "tried": []}}
    page = show(whole, "pending").page
    shown = page.locator("main time").first.inner_text()
    assert "PM" not in shown
    assert ":04:05" in shown
    assert any(zone in shown for zone in ("UTC", "GMT", "CE")), shown
