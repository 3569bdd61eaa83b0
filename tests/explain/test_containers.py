"""`plimsoll explain wekacontainer/…` shows the decision of the allocation controller, even if others watch the kind."""

from __future__ import annotations

import pytest
import yaml

from tests.allocation.build import container_body, drive_annotations
from tests.cli.command import plimsoll

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "annotations": drive_annotations(["S1"])}}
FILES = yaml.safe_dump_all([NODE, container_body("one", node="n1", drives=1, namespace="shop")])


@pytest.mark.parametrize("settings", [(), ("--set", "controllers.enabled=allocation,nodegroups")], ids=["off", "on"])
def test_one_that_waits(settings: tuple[str, ...]):
    told = plimsoll("explain", "wekacontainer/one", "-f", "-", *settings, stdin=FILES)
    assert told.exit_code == 0, told.stderr
    assert "controller    allocation" in told.stdout
    assert "1 containers wait on node n1" in told.stdout


def test_one_that_waits_says_what_its_condition_says():
    """A command has no memory of sessions; the reason is on the container."""
    held = {
        "type": "Allocated", "status": "False", "reason": "LeaseHeld",
        "message": "the lease weka-operator-system/weka-allocator-n1 is held by shop/two since 2026-01-01T00:00:00Z",
    }  # fmt: skip
    waiting = container_body("one", node="n1", drives=1, namespace="shop", status={"conditions": [held]})
    told = plimsoll("explain", "wekacontainer/one", "-f", "-", stdin=yaml.safe_dump_all([NODE, waiting]))
    assert told.exit_code == 0, told.stderr
    assert (
        "blocked by    LeaseHeld: the lease weka-operator-system/weka-allocator-n1 is held by shop/two" in told.stdout
    )


def test_one_without_a_node_says_so():
    waiting = container_body("one", node="", drives=1, namespace="shop", status={"status": "Init"})
    told = plimsoll("explain", "wekacontainer/one", "-f", "-", stdin=yaml.safe_dump_all([NODE, waiting]))
    assert told.exit_code == 0, told.stderr
    assert "NoNode: neither spec.nodeAffinity nor status.nodeAffinity is set" in told.stdout
