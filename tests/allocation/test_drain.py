"""A node on which containers hold something, or are about to, is not to be removed."""

from __future__ import annotations

from plimsoll.controllers.allocation.conditions import Proposal, committed, proposed
from plimsoll.controllers.allocation.container_nodes import WEKA_CONTAINERS
from plimsoll.controllers.allocation.drain import holds_allocations
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import NODES
from tests import build
from tests.allocation.build import container, holding


def test_allocations_and_proposals_and_those_who_are_leaving_hold_a_node() -> None:
    proposal = {"type": "AllocationProposed", "status": "True", "message": '{"node":"n1","epoch":"5","drives":["S1"]}'}
    view = View.of(
        {
            WEKA_CONTAINERS: [
                holding("a", drives=("S1",)),
                container("b", status={"conditions": [proposal]}),
                holding("c", port=35000, deletionTimestamp="2026-01-01T00:00:00Z"),
                container("waits"),
                holding("elsewhere", node="n2", port=35000),
            ]
        }
    )
    assert holds_allocations("n1", view) == ("default/a", "default/b", "default/c")
    assert holds_allocations("n3", view) == ()


def test_where_the_kind_is_not_seen_nothing_is_held() -> None:
    assert holds_allocations("n1", View.of({NODES: ()})) == ()


def test_whoever_reads_a_container_without_our_code_finds_the_node_in_its_conditions() -> None:
    """Those who remove nodes know the cluster's objects and nothing of this package."""
    one, proposal = container("a"), Proposal("n1", "5", ("S1",))
    (pending,) = proposed(one, proposal, build.START)["status"]["conditions"]
    assert '"node":"n1"' in pending["message"]
    (marker,) = committed(one, proposal, build.START)["status"]["conditions"]
    assert marker["message"].startswith("node n1: ")
