"""A snapshot holds what the controllers see and nothing else; hashed, it still means the same."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from plimsoll.config import Config
from plimsoll.explain.targets import Explainer
from plimsoll.snapshot.documents import BadFileError, parse
from plimsoll.snapshot.view import SnapshotView, from_documents
from plimsoll.snapshot.writer import snapshot
from tests.cli.command import plimsoll
from tests.explain.cluster import as_file, objects

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WATCHES = Explainer(Config()).watches


def still_of(text: str) -> SnapshotView:
    return from_documents(parse(text, "cluster.yaml"), WATCHES, NOW)


def explained(document: dict[str, Any], thing: str) -> dict[str, Any]:
    result = plimsoll("explain", thing, "-f", "-", "-o", "json", stdin=json.dumps(document))
    assert result.exit_code == 0, result.stderr
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_what_was_written_reads_as_what_was_seen():
    snapshot_view = still_of(as_file(objects(waiting=True)))
    again = still_of(yaml.safe_dump(snapshot(snapshot_view)))
    for store in snapshot_view.view.stores():
        assert {obj.name: obj for obj in again.view[store.resource]} == {obj.name: obj for obj in store}
    assert again.at == NOW


def test_nothing_leaks():
    secret = {"env": [{"name": "PASSWORD", "value": "hunter2"}], "args": ["--token=hunter2"], "name": "main"}
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"spec": {"env": "hunter2"}})}
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": applied},
        "spec": {"containers": [secret], "nodeName": "d-1"},
    }  # fmt: skip
    other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"password": "hunter2"}}
    snapshot_view = still_of(yaml.safe_dump_all([pod, other]))
    assert "hunter2" not in yaml.safe_dump(snapshot(snapshot_view))


def test_hashed_names_are_gone_and_everything_still_meets():
    snapshot_view = still_of(as_file(objects()))
    plain, hashed = snapshot(snapshot_view), snapshot(snapshot_view, hashed=True)
    text = json.dumps(hashed)
    for name in ("web", "shop", "s-1", "d-2", "web-1-3"):
        assert f'"{name}"' not in text
    workload = next(item for item in hashed["items"] if item["kind"] == "Deployment")["metadata"]
    before, after = explained(plain, "deploy/web"), explained(hashed, f"deploy/{workload['name']}")
    for same in ("target", "current", "drift", "action", "ready"):
        assert before[same] == after[same]
    zones = [[one["zone"] for one in answer["deletionOrder"][0]["departures"]] for answer in (before, after)]
    assert zones[0] == zones[1]


def test_a_stateful_sets_pods_keep_their_ordinals():
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-7"}}
    snapshot_view = still_of(
        yaml.safe_dump_all([{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}}, pod])
    )
    names = {item["kind"]: item["metadata"]["name"] for item in snapshot(snapshot_view, hashed=True)["items"]}
    assert names["Pod"] == f"{names['StatefulSet']}-7"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "kind: Snapshot\nitems: []\ntakenAt: yesterday",
            "cluster.yaml:3: takenAt is 'yesterday': expected a time such as",
        ),
        ("kind: Snapshot\nitems: []", "takenAt is None: expected a time"),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: n}",
            "cluster.yaml:5: Node n is also at cluster.yaml:1",
        ),
    ],
)
def test_bad_files(text: str, message: str):
    with pytest.raises(BadFileError) as error:
        still_of(text)
    assert message in str(error.value)
