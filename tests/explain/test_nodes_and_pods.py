"""`plimsoll explain node/…` and `pod/…`: whether it could go, why it waits."""

from __future__ import annotations

import json
from typing import Any

from tests import build
from tests.cli.command import plimsoll
from tests.explain.cluster import as_file, objects


def explained(thing: str, text: str) -> dict[str, Any]:
    result = plimsoll("explain", thing, "-f", "-", "-o", "json", stdin=text)
    assert result.exit_code == 0, result.stderr
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_a_node_that_could_go():
    answer = explained("node/d-1", as_file(objects()))
    assert (answer["capacityClass"], answer["zone"], answer["removable"]) == ("on-demand", "a", True)
    assert {move["pod"] for move in answer["moves"]} == {"shop/web-1-1", "shop/web-1-2"}
    assert {move["to"] for move in answer["moves"]} <= {"s-1", "s-2", "d-2"}
    pods = next(use for use in answer["usage"] if use["resource"] == "pods")
    assert (pods["requested"], pods["allocatable"]) == ("2", "110")


def test_a_node_that_cannot_go_says_whose_pod_has_no_other_place():
    items = objects()
    tied = build.pod("tied", namespace="shop", node="s-1", spec={"nodeSelector": {"kubernetes.io/hostname": "s-1"}})
    answer = explained("node/s-1", as_file([*items, tied]))
    assert (answer["removable"], answer["moves"]) == (False, [])
    assert answer["whyNot"]["code"] == "NodeSelector"
    assert "shop/tied" in answer["whyNot"]["message"]


def test_a_pod_that_waits_is_told_each_rule():
    answer = explained("pod/big", as_file(objects(waiting=True)))
    assert answer["reason"] == {"code": "Unschedulable", "message": "it fits on none of 4 nodes"}
    (refusal,) = answer["refusals"]
    assert (refusal["rule"], refusal["nodes"]) == ("Resources", 4)


def test_a_pod_that_runs():
    answer = explained("pod/web-1-0", as_file(objects()))
    assert (answer["node"], answer["capacityClass"], answer["workload"]) == ("s-1", "spot", "Deployment/shop/web")
    told = plimsoll("explain", "pod/web-1-0", "-f", "-", stdin=as_file(objects())).stdout
    assert "Bound: it is bound to node s-1" in told


def test_what_is_not_there():
    for thing, message in (("node/x", "there is no node x"), ("pod/x", "there is no pod default/x")):
        result = plimsoll("explain", thing, "-f", "-", stdin=as_file(objects()))
        assert (result.exit_code, message in result.stderr) == (1, True)
