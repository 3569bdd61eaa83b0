"""A lease is removed when its node is: seen in the view, read live, and deleted by UID."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.controllers.allocation.container_nodes import WEKA_CLUSTERS, WEKA_CONTAINERS
from plimsoll.controllers.allocation.controller import AllocationController, AllocationSettings
from plimsoll.controllers.allocation.lease_gc import LeaseGC, collect_leases
from plimsoll.kube.cache.store import View
from plimsoll.kube.codec import convert
from plimsoll.kube.types.coordination import Lease
from plimsoll.kube.types.resources import NODES, PODS, Key
from plimsoll.runtime.decision import Delete, Transaction
from plimsoll.runtime.transaction import (
    ConcurrentWrites,
    End,
    Found,
    Get,
    ListAll,
    Listed,
    Moment,
    ReadFailed,
    TransactionStarted,
    WriteResult,
    WritesDone,
)
from tests import build
from tests.allocation.build import node

MOMENT = Moment(build.START, 0.0)
KEY = Key("Lease", "weka-operator-system", "")


def lease(name: str) -> Lease:
    return convert({"metadata": build.metadata(name, "weka-operator-system")}, Lease)


def view(*names: str) -> View:
    return View.of({NODES: [node(name) for name in names], WEKA_CONTAINERS: (), WEKA_CLUSTERS: (), PODS: ()})


def test_only_leases_of_nodes_that_are_really_gone_are_removed() -> None:
    state, request = collect_leases(LeaseGC("weka-operator-system", frozenset({"n1"})), TransactionStarted(MOMENT, "1"))
    assert isinstance(request, ListAll)
    assert request.namespace == "weka-operator-system"
    leases = tuple(lease(f"weka-allocator-{name}") for name in ("n1", "n2", "n3"))
    state, request = collect_leases(state, Listed(MOMENT, (*leases, lease("another"))))
    assert isinstance(request, Get)
    assert (request.resource, request.name) == (NODES, "n2")
    state, request = collect_leases(state, Found(MOMENT, node("n2")))  # the view had not seen it yet
    assert isinstance(request, Get)
    assert request.name == "n3"
    state, request = collect_leases(state, Found(MOMENT, None))
    assert isinstance(request, ConcurrentWrites)
    (delete,) = request.writes
    assert isinstance(delete, Delete)
    assert (delete.target.name, delete.target.uid) == ("weka-allocator-n3", leases[2].uid)
    state, request = collect_leases(state, WritesDone(MOMENT, (WriteResult("done"),)))
    assert isinstance(request, End)
    assert state.done


def test_what_could_not_be_read_is_tried_again() -> None:
    state, request = collect_leases(LeaseGC("x", frozenset({"n1"})), ReadFailed(MOMENT, "503"))
    assert isinstance(request, End)
    assert request.status == "failed"
    assert not state.done


@pytest.mark.parametrize(
    ("became", "status"), [("conflict", "conflict"), ("refused", "failed"), ("failed", "failed"), ("unknown", "failed")]
)
def test_what_could_not_be_removed_is_tried_again_and_the_others_are_removed(became: Any, status: str) -> None:
    """No node goes and asks for another look: a lease that was renewed in that very moment would stay for good."""
    leases = tuple(lease(f"weka-allocator-{name}") for name in ("n2", "n3"))
    state, _ = collect_leases(LeaseGC("x", frozenset({"n1"})), Listed(MOMENT, leases))
    state, _ = collect_leases(state, Found(MOMENT, None))
    state, request = collect_leases(state, WritesDone(MOMENT, (WriteResult(became, detail="it was changed"),)))
    assert isinstance(request, Get)
    state, _ = collect_leases(state, Found(MOMENT, None))
    state, request = collect_leases(state, WritesDone(MOMENT, (WriteResult("done"),)))
    assert isinstance(request, End)
    assert (request.status, request.detail) == (status, "it was changed")
    assert not state.done


def test_leases_are_looked_at_once_at_the_start_and_whenever_a_node_goes() -> None:
    controller = AllocationController(AllocationSettings(), "me")

    def transactions(seen: View) -> tuple[Any, ...]:
        return controller.decide(KEY, seen, build.START).actions

    (first,) = transactions(view("n1", "n2"))
    assert isinstance(first, Transaction)
    assert transactions(view("n1", "n2")), "it was not done yet"
    first.ended(LeaseGC("x", frozenset({"n1", "n2"}), done=True))
    assert transactions(view("n1", "n2")) == ()
    assert transactions(view("n1", "n2", "n3")) == ()
    assert transactions(view("n1", "n2")), "n3 is gone"


def test_nothing_is_concluded_from_seeing_no_node_at_all() -> None:
    controller = AllocationController(AllocationSettings(), "me")
    assert controller.decide(KEY, view(), build.START).actions == ()
