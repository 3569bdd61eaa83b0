"""What the demonstration shows of what happens: in plain words, without what nobody would miss."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from plimsoll.cli.invariant_text import describe_reason, describe_timeline
from plimsoll.simulate.invariants import TimelineEntry

_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def shown(*noted: str) -> list[str]:
    return [text for _, text in describe_timeline(TimelineEntry(_NOON, one, "because") for one in noted)]


@pytest.mark.parametrize(
    ("noted", "text"),
    [
        ("placement Deployment/shop/web: MigratingToSpot", "web moves a pod to spot"),
        ("nodegroups NodeGroups/all: Settled", "node groups are settled"),
        ("nodegroups VPSieNode/shop/burst-1: GivingBack", "burst-1 is being deleted at the provider"),
        ("placement StatefulSet/shop/db: SomethingNew", "db something new"),
        ("evicted shop/web-1 from spot-a-1", "evicted shop/web-1 from spot-a-1"),
    ],
)
def test_decisions_in_plain_words(noted: str, text: str) -> None:
    assert shown(noted) == [text]


def test_what_is_said_again_and_again_is_shown_now_and_then() -> None:
    writing, moving = "deletion-cost Deployment/shop/web: Writing", "placement Deployment/shop/web: MigratingToSpot"
    quiet = "deletion-cost Deployment/shop/web: InOrder"
    lines = shown(*[writing, quiet, moving, "evicted shop/web-1 from n"] * 3)
    assert lines.count("web updates its deletion order") == 1
    assert lines.count("web moves a pod to spot") == 3


def test_nodes_that_come_together_are_one_line() -> None:
    nodes = [f"node spot-a-{number} joined" for number in range(12)]
    assert shown(*nodes, "node spot-a-1 was removed") == ["12 nodes joined", "node spot-a-1 was removed"]
    later = TimelineEntry(_NOON + timedelta(seconds=1), "node late joined", "")
    assert [text for _, text in describe_timeline([TimelineEntry(_NOON, nodes[0], ""), later])] == [
        nodes[0],
        "node late joined",
    ]


def test_reasons_go_without_the_name_of_their_rule() -> None:
    assert describe_reason(TimelineEntry(_NOON, "x", "scale-up-on-demand: 8 on spot")) == "8 on spot"
    assert describe_reason(TimelineEntry(_NOON, "x", "none: all is well")) == "all is well"
    assert describe_reason(TimelineEntry(_NOON, "x", "pod a moves: there is room")) == "pod a moves: there is room"
