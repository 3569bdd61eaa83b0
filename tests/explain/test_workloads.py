"""`plimsoll explain deployment/…`: target, current, what happens next, what holds it up, and the deletion order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import build
from tests.cli.command import plimsoll
from tests.explain.cluster import ANNOTATIONS, as_file, objects

# Nothing else stands in the way of a move where a webhook would give the replacement its class.
SERVED = ("--set", "webhook.mode=service")


def explained(text: str, thing: str = "deploy/web", *more: str) -> dict[str, Any]:
    result = plimsoll("explain", thing, "-f", "-", "-o", "json", *SERVED, *more, stdin=text)
    assert result.exit_code == 0, result.stderr
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_a_drifted_deployment():
    answer = explained(as_file(objects()))
    assert (answer["target"], answer["current"]) == ({"spot": 2, "onDemand": 2}, {"spot": 1, "onDemand": 3})
    assert (answer["drift"], answer["action"]) == ({"spot": -1, "onDemand": 1}, "migrate-to-spot")
    assert (answer["blockers"], answer["errors"]) == ([], [])
    assert [step.split(":")[0] for step in answer["steps"] if step.startswith("evict")] == ["evict Pod/shop/web-1-1"]
    assert all(guard["open"] for guard in answer["guards"])
    (order,) = answer["deletionOrder"]
    assert {one["pod"] for one in order["departures"]} == {f"web-1-{number}" for number in range(4)}


def test_a_guard_that_blocks_says_until_when():
    window = {
        "spotalis.io/disruption-schedule": "0 3 * * *",
        "spotalis.io/disruption-duration": "1h",
    }
    text = as_file(objects(annotations=ANNOTATIONS | window), kind="Snapshot", takenAt="2026-03-01T12:00:00Z")
    answer = explained(text)
    (blocking,) = [guard for guard in answer["guards"] if not guard["open"]]
    assert (blocking["guard"], blocking["until"]) == ("window is open", "2026-03-02T03:00:00Z")
    assert [blocker["code"] for blocker in answer["blockers"]] == ["WindowClosed"]
    assert answer["asOf"] == "2026-03-01T12:00:00Z"
    told = plimsoll("explain", "deploy/web", "-f", "-", *SERVED, stdin=text).stdout
    assert "block  window is open: the disruption window of Deployment/shop/web" in told
    assert "(until 2026-03-02 03:00:00 UTC, in 15h 0m 0s)" in told


def test_a_budget_that_blocks():
    text = as_file([*objects(), build.budget(namespace="shop", allowed=0)])
    answer = explained(text)
    assert [blocker["code"] for blocker in answer["blockers"]] == ["NotEnoughPdb"]
    assert [step for step in answer["steps"] if step.startswith("evict")] == []


def test_every_reason_why_a_policy_is_invalid():
    wrong = ANNOTATIONS | {"spotalis.io/spot-percentage": "70", "spotalis.io/min-on-demand": "-1"}
    answer = explained(as_file(objects(annotations=wrong)))
    assert (answer["managed"], answer["target"], answer["action"]) == (False, None, "none")
    (error,) = answer["errors"]
    assert 'spotalis.io/spot-percentage is "70"' in error
    assert 'spotalis.io/min-on-demand is "-1"' in error


def test_manifests_that_nobody_has_applied(tmp_path: Path):
    file = tmp_path / "web.yaml"
    bare = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "annotations": ANNOTATIONS},
        "spec": {"replicas": 10, "template": {"metadata": {"labels": {"app": "web"}}}},
    }
    other = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    file.write_text(yaml.safe_dump_all([bare, other]))
    result = plimsoll("explain", "deployment/web", "-f", str(file), "-o", "yaml")
    answer = yaml.safe_load(result.stdout)
    assert (answer["namespace"], answer["target"]) == ("default", {"spot": 5, "onDemand": 5})
    assert answer["action"] == "scale-up-on-demand"


def test_the_text_is_for_people():
    told = plimsoll("explain", "deploy/web", "-f", "-", *SERVED, stdin=as_file(objects())).stdout.splitlines()
    assert told[0] == "Deployment shop/web"
    assert "target        2 spot, 2 on-demand" in told
    assert "current       1 spot, 3 on-demand; 4 ready" in told
    assert any(line.startswith("next          evict Pod/shop/web-1-1: ") for line in told)
    assert any(line.startswith("deleted first ReplicaSet web-1") for line in told)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["deploy/nope"], "there is no Deployment default/nope"),
        (["deploy/web", "-n", "other"], "there is no Deployment other/web"),
        (["service/web"], 'KIND/NAME: "service/web"; write it like deployment/web'),
        (["web"], 'KIND/NAME: "web"; write it like deployment/web'),
    ],
)
def test_what_is_not_there(arguments: list[str], message: str):
    result = plimsoll("explain", *arguments, "-f", "-", stdin=as_file(objects()))
    assert result.exit_code != 0
    assert message in result.stderr


def test_a_name_in_two_namespaces_needs_one():
    text = as_file([*objects(), build.deployment("web", namespace="office")])
    result = plimsoll("explain", "deploy/web", "-f", "-", stdin=text)
    assert "in several namespaces (office, shop); choose one with -n NAMESPACE" in result.stderr
    assert explained(text, "deploy/web", "-n", "office")["namespace"] == "office"
    with_default = as_file([*objects(), build.deployment("web", namespace="default")])
    assert explained(with_default, "deploy/web")["namespace"] == "default"


def test_an_operator_of_some_namespaces_can_be_asked():
    answer = explained(as_file(objects()), "deploy/web", "--set", "operator.watchNamespaces=shop")
    assert answer["target"]["spot"] > 0
