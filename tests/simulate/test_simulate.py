"""`plimsoll simulate`: a scenario, what it comes to, and what is said about a bad one."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll.embedded_cluster.controllers.replica_sets import ReplicaSetController
from tests.cli.command import plimsoll
from tests.explain.cluster import as_file, objects

NODES = ("--nodes", "3 zone=a class=spot", "--nodes", "3 zone=b class=on-demand", "--nodes", "3 zone=c class=spot")
ANNOTATIONS = {
    "spotalis.io/enabled": "true",
    "spotalis.io/spot-percentage": "70%",
    "spotalis.io/min-on-demand": "2",
    "pod-deletion-cost.lablabs.io/enabled": "true",
}


@pytest.fixture
def web(tmp_path: Path) -> str:
    labels = {"app": "web"}
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m"}}}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "annotations": ANNOTATIONS},
        "spec": {
            "replicas": 10,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump(body))
    return str(file)


def simulated(*arguments: str) -> dict[str, Any]:
    result = plimsoll("simulate", "-o", "json", *arguments)
    assert result.exit_code == 0, result.stdout + result.stderr
    reports: dict[str, Any] = json.loads(result.stdout)
    return reports


def test_changes_and_events(web: str):
    report = simulated(
        *NODES, "-f", web, "--for", "3h", "--set", "deployment/shop/web:replicas=20@30m",
        "--set", "deployment/shop/web:spotalis.io/spot-percentage=30%@1h", "--event", "reclaim:node/spot-a-1@2h",
    )["defaults"]  # fmt: skip
    assert report["violations"] == []
    assert report["evictions"] >= 8  # from 14 to 6 on spot, and whoever was on the node that went
    assert report["mostEvictionsOfOnePod"] == 1
    assert (report["nodesAtMost"], report["nodesAtEnd"]) == (9, 8)
    assert report["settledAfterSeconds"] is not None
    assert 0.3 < report["spotShare"] < 0.7
    assert report["samples"][-1]["podsReady"] == 20


def test_two_configurations_are_compared(web: str, tmp_path: Path):
    """A window that is closed for the whole simulation moves nobody; without one, six are moved."""
    open_, closed = tmp_path / "open.yaml", tmp_path / "closed.yaml"
    open_.write_text("{}")
    window = {"schedule": "0 3 * * *", "duration": "1h"}
    closed.write_text(yaml.safe_dump({"operator": {"disruptionWindow": window}}))
    arguments = (
        *NODES, "-f", web, "--for", "2h", "--set", "deployment/shop/web:spotalis.io/spot-percentage=10%@10m",
        "--config", str(open_), "--config", str(closed),
    )  # fmt: skip
    reports = simulated(*arguments)
    assert reports[str(open_)]["evictions"] == 6
    assert reports[str(closed)]["evictions"] == 0
    assert reports[str(closed)]["spotShare"] > reports[str(open_)]["spotShare"]
    told = plimsoll("simulate", *arguments).stdout
    assert "violations" in told


def test_from_a_snapshot_nothing_happens_by_itself(tmp_path: Path):
    """What is at rest stays at rest: the pods of the snapshot are the pods of the simulation."""

    settled = ANNOTATIONS | {"spotalis.io/spot-percentage": "25%", "spotalis.io/min-on-demand": "1"}
    file = tmp_path / "cluster.yaml"
    file.write_text(as_file(objects(annotations=settled), kind="Snapshot", takenAt="2026-03-01T12:00:00Z"))
    report = simulated("--snapshot", str(file), "--for", "2h")["defaults"]
    assert (report["evictions"], report["violations"]) == (0, [])
    assert [sample["podsReady"] for sample in report["samples"]] == [4] * len(report["samples"])
    assert report["writes"] == {"pods": 4}, "each gets its place in the order of deletion, once"


def test_what_a_snapshot_leaves_out_is_no_reason_to_refuse_a_write(tmp_path: Path):
    """A zero goes without saying in a file, and a cluster requires it."""
    spec = {
        "maxNodes": 3, "datacenterID": "d", "resourceIdentifier": "r", "project": "p", "offeringIDs": ["small"],
        "kubernetesVersion": "v1.36.3", "provider": "kwok",
    }  # fmt: skip
    group = {
        "apiVersion": "autoscaler.vpsie.com/v1alpha1",
        "kind": "NodeGroup",
        "metadata": {"name": "workers", "namespace": "default"},
        "spec": spec,
    }
    whole = yaml.safe_load(as_file(objects(), kind="Snapshot", takenAt="2026-03-01T12:00:00Z"))
    whole["items"].append(group)
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(whole))
    report = simulated("--snapshot", str(file), "--for", "30m")["defaults"]
    assert report["writes"]["nodegroups"] == 1


def test_a_curve_that_replicas_follow(web: str, tmp_path: Path):
    file = tmp_path / "day.yaml"
    file.write_text(
        yaml.safe_dump(
            {"curves": [{"workload": "deployment/shop/web", "low": 4, "high": 12, "period": "12h", "for": "12h"}]}
        )
    )
    report = simulated(*NODES, "-f", web, "--for", "12h", "--scenario", str(file))["defaults"]
    wanted = [sample["podsWanted"] for sample in report["samples"]]
    assert (min(wanted), max(wanted), wanted[-1]) == (4, 12, 4)
    assert (report["violations"], report["evictions"]) == ([], 0)  # admission and the order of deletion see to it


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no cluster to start from: give --snapshot FILE, or --nodes LINE and -f FILE"),
        ([*NODES, "--set", "web=3"], '"web=3"; write it like deployment/web:replicas=40@10m'),
        ([*NODES, "--set", "deployment/web:replicas=many@1m"], 'replicas is "many"; expected a whole number'),
        ([*NODES, "--set", "deployment/web:size=3@1m"], '"size" is neither replicas nor the key of an annotation'),
        ([*NODES, "--set", "deployment/web:replicas=3@soon"], '"soon"'),
        ([*NODES, "--set", "deployment/web:replicas=3@1m"], "Deployment default/web does not exist"),
        ([*NODES, "--set", "deployment/web:replicas=3@2h"], "the simulation ends after 1h"),
        ([*NODES, "--event", "explode:node/x@1m"], "write it like reclaim:node/spot-a-1@1h"),
        ([*NODES, "--event", "reclaim:node/x@1m"], "node x does not exist"),
        (["--nodes", "3 zone=a class=gold"], "class= expects one of spot, on-demand, reserved"),
        ([*NODES, "--for", "soon"], '"soon"'),
        ([*NODES, "--price", "gold=dear"], '"gold=dear"; write it like spot=0.012'),
        ([*NODES, "--scenario", "/nowhere"], "/nowhere: No such file or directory"),
        (["--snapshot", "/nowhere"], "/nowhere: No such file or directory"),
        ([*NODES, "--price", "spot=nan"], '"spot=nan"; write it like spot=0.012'),
        ([*NODES, "--event", "nodes:3 zone=a class=gold@1m"], "class= expects one of spot, on-demand, reserved"),
    ],
)
def test_what_cannot_be_followed_is_refused_in_a_sentence(arguments: list[str], message: str):
    result = plimsoll("simulate", *arguments)
    assert result.exit_code in (1, 2)
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def real_snapshot(directory: Path) -> Path:
    """A snapshot as `plimsoll snapshot` writes it, of Deployments whose conditions a real controller wrote."""
    whole = yaml.safe_load(as_file(objects(), kind="Snapshot", takenAt="2026-03-01T12:00:00Z"))
    for item in whole["items"]:
        if item["kind"] == "Deployment":
            # The operator's types leave out lastUpdateTime, so a snapshot does, too.
            item.setdefault("status", {})["conditions"] = [
                {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
                {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
            ]
    file = directory / "now.yaml"
    file.write_text(yaml.safe_dump(whole))
    return file


def test_conditions_without_an_update_time_are_no_error(tmp_path: Path):
    result = plimsoll("simulate", "--snapshot", str(real_snapshot(tmp_path)), "--for", "30m")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""


def test_an_error_inside_the_embedded_cluster_is_a_failure(web: str, monkeypatch: pytest.MonkeyPatch):
    async def broken(self: ReplicaSetController, key: tuple[str, str]) -> None:
        raise KeyError("lastUpdateTime")

    monkeypatch.setattr(ReplicaSetController, "reconcile", broken)
    result = plimsoll("simulate", *NODES, "-f", web, "--for", "30m")
    assert result.exit_code == 1
    assert "inside the embedded cluster; the first: " in result.stderr
    assert "KeyError('lastUpdateTime')" in result.stderr
    assert "evictions" not in result.stdout, "no figures that nobody may trust"


def test_the_controllers_and_prices_are_stated(web: str):
    shown = plimsoll("simulate", *NODES, "-f", web, "--for", "10m", "--price", "spot=0.02").stdout
    assert "Enabled controllers: " in shown
    assert all(name in shown for name in ("placement", "deletion-cost", "nodegroups", "allocation"))
    assert "spot 0.02 and on-demand 0.04 per CPU" in shown


def test_the_story_has_changes_at_the_minute_that_was_asked_for(web: str):
    shown = plimsoll(
        "simulate", *NODES, "-f", web, "--for", "30m", "--story", "--set", "deployment/shop/web:replicas=12@10m"
    ).stdout
    assert "  0:10:00  scenario: deployment/shop/web:replicas=12@10m" in shown


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("evictions<=10", 0),
        ("evictions==0", 0),
        ("spotShare>=60%", 0),
        ("violations==0", 0),
        ("nodesAtMost>9", 1),
        ("cost < 0.01", 1),
        ("settledAfterSeconds<=1", 1),
    ],
)
def test_assertions(web: str, condition: str, code: int):
    result = plimsoll("simulate", *NODES, "-f", web, "--for", "30m", "--assert", condition)
    assert result.exit_code == code, result.stderr
    assert (f"assertion failed: defaults: {condition}" in result.stderr) == bool(code)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("evictions", "write it like evictions<=10"),
        ("evictions<=many", "write it like evictions<=10"),
        ("happiness>3", '"happiness" is none of hours, evictions'),
    ],
)
def test_an_assertion_that_cannot_be_parsed(condition: str, message: str):
    result = plimsoll("simulate", *NODES, "--assert", condition)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


class Page(HTMLParser):
    """What a browser would load, and whether tags match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [f"{tag} {name}" for name, _ in attrs if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [f"{tag} {name}" for name, _ in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_html_report_is_one_file_with_plots_and_differences(web: str, tmp_path: Path):
    first, second = tmp_path / "<b>first.yaml", tmp_path / "second.yaml"
    first.write_text("{}")
    second.write_text(yaml.safe_dump({"operator": {"disruptionWindow": {"schedule": "0 3 * * *", "duration": "1h"}}}))
    report = tmp_path / "report.html"
    result = plimsoll(
        "simulate", *NODES, "-f", web, "--for", "2h", "--set", "deployment/shop/web:spotalis.io/spot-percentage=10%@10m",
        "--config", str(first), "--config", str(second), "--html", str(report), "--assert", "evictions<=3",
    )  # fmt: skip
    assert result.exit_code == 1, result.stderr
    text = report.read_text()
    page = Page(text)
    assert page.open == []
    assert page.loads == [], "nothing is loaded from elsewhere"
    assert "<script" not in text
    assert text.count("<figure>") == 4
    assert text.count('class="eviction"') == 6, "each eviction is marked"
    assert "-6 (-100 %)" in text, "the difference in evictions"
    assert "&lt;b&gt;first.yaml" in text
    assert "<b>first" not in text
    assert "0:10:00 scenario: deployment/shop/web" in text
    assert "Assertion failed: " in text


def test_a_report_that_cannot_be_written(web: str):
    result = plimsoll("simulate", *NODES, "-f", web, "--for", "1m", "--html", "/nowhere/report.html")
    assert result.exit_code == 1
    assert "--html /nowhere/report.html: No such file or directory" in result.stderr
