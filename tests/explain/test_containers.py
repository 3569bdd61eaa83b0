"""`plimsoll explain wekacontainer/…`: told by its own controller, whichever others look at the kind as well."""

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
