"""`plimsoll explain nodegroup/…`, and what `validate` says of one that nobody can follow."""

from __future__ import annotations

import json

import yaml

from tests.cli.command import plimsoll

GROUP = {
    "apiVersion": "autoscaler.vpsie.com/v1alpha1",
    "kind": "NodeGroup",
    "metadata": {"name": "workers", "namespace": "default"},
    "spec": {
        "minNodes": 2, "maxNodes": 5, "datacenterID": "d", "resourceIdentifier": "r", "project": "p",
        "offeringIDs": ["small"], "kubernetesVersion": "1.36",
    },
}  # fmt: skip


def test_what_is_there_and_what_is_wanted():
    result = plimsoll("explain", "ng/workers", "-f", "-", "-o", "json", stdin=yaml.safe_dump(GROUP))
    answer = json.loads(result.stdout)
    assert (answer["current"], answer["desired"], answer["errors"]) == (0, 2, [])
    # A command has no provider data; that is no property of the group and is left out.
    assert answer["blockers"] == []
    told = plimsoll("explain", "nodegroup/workers", "-f", "-", stdin=yaml.safe_dump(GROUP)).stdout
    assert "nodes         0 current, 2 desired" in told


def test_one_that_nobody_can_follow():
    wrong = {**GROUP, "spec": {**GROUP["spec"], "minNodes": 9}}  # type: ignore[dict-item]
    answer = json.loads(plimsoll("explain", "ng/workers", "-f", "-", "-o", "json", stdin=yaml.safe_dump(wrong)).stdout)
    assert answer["errors"] == ["minNodes is 9, above maxNodes 5; lower one or raise the other"]
    told = plimsoll("validate", "-", stdin=yaml.safe_dump(wrong))
    assert told.exit_code == 1
    assert "NodeGroup default/workers: minNodes is 9, above maxNodes 5" in told.stdout


def test_one_that_is_not_there():
    result = plimsoll("explain", "ng/other", "-f", "-", stdin=yaml.safe_dump(GROUP))
    assert (result.exit_code, "there is no NodeGroup default/other" in result.stderr) == (1, True)
