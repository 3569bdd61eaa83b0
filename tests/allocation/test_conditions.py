"""The conditions name the node, so that controllers that only know the cluster's objects find it."""

from __future__ import annotations

from plimsoll.controllers.allocation.conditions import Proposal, commit_patch, propose_patch
from tests import build
from tests.allocation.build import container


def test_the_node_can_be_read_from_the_conditions_without_our_code() -> None:
    one, proposal = container("a"), Proposal("n1", "5", ("S1",))
    (pending,) = propose_patch(one, proposal, build.START)["status"]["conditions"]
    assert '"node":"n1"' in pending["message"]
    (marker,) = commit_patch(one, proposal, build.START)["status"]["conditions"]
    assert marker["message"].startswith("node n1: ")
