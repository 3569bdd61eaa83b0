"""What is decided for a node: whom to serve, what to say, and when to look again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from plimsoll.controllers.allocation.container_nodes import WEKA_CLUSTERS, WEKA_CONTAINERS
from plimsoll.controllers.allocation.controller import (
    LEASE_HELD_GRACE,
    NO_NODE_GRACE,
    AllocationController,
    AllocationDecision,
    AllocationSettings,
)
from plimsoll.controllers.allocation.inventory import BLOCKED, DRIVES
from plimsoll.controllers.allocation.plan import Unserved
from plimsoll.controllers.allocation.session import Ended, Starting, Task
from plimsoll.controllers.allocation.shortage import Shortage
from plimsoll.controllers.allocation.types import WekaCluster, WekaContainer
from plimsoll.controllers.allocation.usage import NodeUsage
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.resources import NODES, PODS, Key
from plimsoll.runtime.decision import Blocker, Patch, Transaction
from tests import build
from tests.allocation.build import container, holding, node, weka_cluster

NOW = build.START
KEY = Key("Node", "", "n1")


class World:
    def __init__(self, *objects: WekaContainer | WekaCluster | Node | Pod, **settings: Any) -> None:
        self.now = NOW
        self.controller = AllocationController(AllocationSettings(**settings), "me", now=lambda: self.now)
        self.see(*objects)

    def see(self, *objects: WekaContainer | WekaCluster | Node | Pod) -> None:
        kinds: dict[Any, list[Any]] = {WEKA_CONTAINERS: [], WEKA_CLUSTERS: [], NODES: [], PODS: []}
        for one in objects:
            kinds[next(kind for kind in kinds if kind.type is type(one))].append(one)
        self.view = View.of(kinds)

    def decide(self, key: Key = KEY) -> AllocationDecision:
        return self.controller.decide(key, self.view, self.now)

    def task(self) -> Task:
        (transaction,) = [one for one in self.decide().actions if isinstance(one, Transaction)]
        assert isinstance(transaction.start, Starting)
        return transaction.start.task

    def sessions(self) -> list[Transaction]:
        return [one for one in self.decide().actions if isinstance(one, Transaction)]

    def patches(self) -> list[Patch]:
        return [one for one in self.decide().actions if isinstance(one, Patch)]

    def refuse(self, one: WekaContainer) -> None:
        """The session found too little for this container."""
        task = self.task()
        here = [*self.view[WEKA_CONTAINERS]]
        taken = NodeUsage("n1", task.inventory, here).tokens()  # type: ignore[arg-type]
        (transaction,) = [one for one in self.decide().actions if isinstance(one, Transaction)]
        transaction.ended(Ended(task, unserved=(Unserved(one, Shortage("InsufficientDrives", "too few"), taken),)))

    def end(self, ended: Ended) -> None:
        (transaction,) = [one for one in self.decide().actions if isinstance(one, Transaction)]
        transaction.ended(ended)


def pod_of(one: WekaContainer, **fields: Any) -> Pod:
    return build.pod(one.name, owner=one, node="n1", **fields)


def condition(patch: Patch) -> dict[str, Any]:
    body: Any = patch.body
    found: dict[str, Any] = body["status"]["conditions"][-1]
    return found


def test_nobody_waits() -> None:
    world = World(node("n1", "S1"), holding("a", drives=("S1",), port=35000, agent=35300))
    assert (world.decide().reason.code, world.decide().actions) == ("Allocated", ())


def test_those_who_wait_are_served_oldest_first_in_one_session() -> None:
    young = container("young", drives=1, creationTimestamp="2026-01-01T00:00:09Z")
    old = container("old", drives=1, creationTimestamp="2026-01-01T00:00:01Z")
    world = World(node("n1", "S1"), young, old)
    task = world.task()
    assert task.turn == (old.uid, young.uid)
    assert task.identity == "default/old"
    assert (task.lease_namespace, task.lease_name) == ("weka-operator-system", "weka-allocator-n1")
    assert (task.times.duration, task.times.renew_deadline) == (timedelta(seconds=15), timedelta(seconds=10))
    assert world.decide().requeue_after == timedelta(seconds=2)


@pytest.mark.parametrize("mode", ["drivers-loader", "discovery"])
def test_modes_that_hold_nothing_do_not_wait(mode: str) -> None:
    assert World(node("n1", "S1"), container("a", mode=mode)).decide().actions == ()


def test_one_that_is_leaving_does_not_wait() -> None:
    assert World(node("n1"), container("a", deletionTimestamp="2026-01-01T00:00:00Z")).decide().actions == ()


def test_node_affinity_of_the_status_counts_where_the_spec_names_none() -> None:
    world = World(node("n1", "S1"), container("a", node="", status={"nodeAffinity": "n1"}))
    assert world.task().identity == "default/a"


def test_one_that_found_too_little_waits_thirty_seconds_and_the_others_go_on() -> None:
    big, small = container("big", drives=5), container("small", drives=1)
    world = World(node("n1", "S1"), big)
    world.refuse(big)
    decision = world.decide()
    assert (decision.reason.code, world.sessions(), decision.requeue_after) == (
        "Insufficient",
        [],
        timedelta(seconds=30),
    )
    world.see(node("n1", "S1"), big, small)
    assert world.task().turn == (small.uid,)
    assert world.task().held_back == {big.uid}
    world.now += timedelta(seconds=30)
    assert set(world.task().turn) == {small.uid, big.uid}
    assert world.task().turn[-1] == big.uid, "others go first"


@pytest.mark.parametrize("change", ["freed", "inventory", "spec", "clock set back"])
def test_the_wait_ends_early_when_something_changes(change: str) -> None:
    big, other = (
        container("big", drives=2, uid="big", generation=1),
        holding("other", drives=("S1",), port=35000, agent=35300),
    )
    world = World(node("n1", "S1", "S2"), big, other)
    world.refuse(big)
    assert world.sessions() == []
    match change:
        case "freed":
            world.see(node("n1", "S1", "S2"), big)
        case "inventory":
            world.see(node("n1", "S1", "S2", "S3"), big, other)
        case "spec":
            world.see(node("n1", "S1", "S2"), container("big", drives=1, uid="big", generation=2), other)
        case _:
            world.now -= timedelta(hours=1)
    assert world.task().turn == ("big",)


def test_something_more_that_is_taken_does_not_end_the_wait() -> None:
    big = container("big", drives=3)
    world = World(node("n1", "S1", "S2"), big)
    world.refuse(big)
    world.see(node("n1", "S1", "S2"), big, holding("new", drives=("S1",), port=35000, agent=35300))
    assert world.sessions() == []


def test_proposals_that_nobody_finished_are_cleared_even_if_nobody_waits() -> None:
    proposal = {"type": "AllocationProposed", "status": "True", "message": '{"node":"n1","epoch":"5","drives":["S1"]}'}
    gone_elsewhere = container("a", node="n2", status={"conditions": [proposal]})
    world = World(node("n1", "S1"), node("n2"), gone_elsewhere)
    assert world.decide().reason.code == "StaleProposal"
    assert world.task().identity == "default/a"


# ── what is wrong ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_spec_that_cannot_be_followed_is_said_on_the_container_and_others_go_on() -> None:
    bad, good = container("bad", drives=-3), container("good", drives=1)
    world = World(node("n1", "S1"), bad, good)
    (patch,) = world.patches()
    assert (patch.target.name, patch.subresource, patch.if_unchanged) == ("bad", "status", True)
    assert (condition(patch)["type"], condition(patch)["status"]) == ("Allocated", "False")
    assert "spec.numDrives is -3" in condition(patch)["message"]
    assert [problem.code for problem in world.decide().problems] == ["InvalidSpec"]
    assert world.task().turn == (good.uid,)


def test_what_is_said_once_is_not_written_again_and_is_taken_back() -> None:
    bad = container("bad", drives=-3)
    world = World(node("n1", "S1"), bad)
    (patch,) = world.patches()
    status = {"status": "", "conditions": [condition(patch)]}
    world.see(node("n1", "S1"), container("bad", drives=-3, status=status))
    assert world.patches() == []
    world.see(node("n1", "S1"), container("bad", drives=1, status=status))
    (patch,) = world.patches()
    assert condition(patch)["reason"] == "Waiting"


def test_an_inventory_that_cannot_be_read_stops_drives_and_not_ports() -> None:
    broken = build.node("n1", annotations={DRIVES: "S1 S2"})
    needs_drives, needs_ports = container("a", drives=1), container("b", mode="compute")
    world = World(broken, needs_drives, needs_ports)
    (patch,) = world.patches()
    assert patch.target.name == "a"
    assert "weka.io/weka-drives" in condition(patch)["message"]
    assert "S1 S2" in condition(patch)["message"]
    assert world.task().turn == (needs_ports.uid,)
    assert world.task().inventory is None


def test_a_node_that_does_not_exist() -> None:
    world = World(node("n2"), container("a"))
    (patch,) = world.patches()
    assert condition(patch)["reason"] == "NodeNotFound"
    assert "n1" in condition(patch)["message"]
    assert world.decide().reason.code == "NodeNotFound"


def test_a_container_that_moved_with_its_drives() -> None:
    marker = {
        "type": "Allocated",
        "status": "True",
        "reason": "AllocatedByPlimsoll",
        "message": "node n2: 1 drives (epoch 5)",
    }
    moved = container("a", drives=2, status={"allocations": {"drives": ["S1"]}, "conditions": [marker]})
    world = World(node("n1", "S1"), node("n2", "S1"), moved)
    assert [problem.code for problem in world.decide().problems] == ["NodeChanged"]
    assert world.decide().actions == ()
    assert world.decide(Key("Node", "", "n2")).problems == ()


EVIDENCE = [
    {"containerID": 3},
    {"addedDrives": [{"uuid": "u", "serial_number": "S1", "status": "ACTIVE"}]},
    {"conditions": [{"type": "ResourcesAllocated", "status": "True", "reason": "Success"}]},
    {"conditions": [{"type": "ResourcesWritten", "status": "True", "reason": "Success"}]},
    {"conditions": [{"type": "Allocated", "status": "True", "reason": "AllocatedByPlimsoll", "message": "node n1: "}]},
]


@pytest.mark.parametrize("status", EVIDENCE)
def test_evidence_of_an_earlier_allocation_and_none_now_is_a_loss(status: dict[str, Any]) -> None:
    lost = container("lost", drives=2, status={"status": "Running", **status})
    assert World(node("n1", "S1", "S2"), lost, pod_of(lost)).decide().reason.code == "AllocationLost"


def test_a_new_backend_has_a_pod_before_it_has_an_allocation() -> None:
    """The storage operator starts the pod, learns the node from it, and only then allocates."""
    status = {"status": "PodRunning", "nodeAffinity": "n1", "conditions": [{"type": "EnsureDrivers", "status": "True"}]}
    new = container("new", node="", drives=2, status=status)
    world = World(node("n1", "S1", "S2"), new, pod_of(new))
    assert world.decide().reason.code == "ContainersWaiting"
    assert world.task().turn == (new.uid,)
    assert world.patches() == []


def test_a_container_without_a_node_says_so_after_a_while() -> None:
    new = container("new", node="", drives=2, status={"status": "Init"}, creationTimestamp=NOW.isoformat())
    world = World(new)
    (key,) = world.controller.keys(WEKA_CONTAINERS, new, world.view)
    decision = world.decide(key)
    assert (decision.reason.code, decision.actions) == ("NoNode", ())
    assert decision.requeue_after == NO_NODE_GRACE
    world.now += NO_NODE_GRACE
    (patch,) = [one for one in world.decide(key).actions if isinstance(one, Patch)]
    assert (condition(patch)["status"], condition(patch)["reason"]) == ("False", "NoNode")
    scheduled = container("new", node="", drives=2, status={"nodeAffinity": "n1"})
    world.see(node("n1", "S1", "S2"), scheduled, pod_of(scheduled))
    assert world.decide(key).actions == ()


def test_a_client_is_left_alone_even_if_its_pod_runs() -> None:
    client = container("client", mode="client", status={"status": "Running", "containerID": 4})
    world = World(node("n1", "S1"), client, container("backend", drives=1), pod_of(client))
    assert world.decide().reason.code == "ContainersWaiting"
    assert world.decide().waiting == ("default/backend",)


def test_a_shortage_is_a_condition() -> None:
    one = container("a", drives=2)
    world = World(node("n1", "S1"), one)
    world.refuse(one)
    (patch,) = world.patches()
    assert (condition(patch)["status"], condition(patch)["reason"], condition(patch)["message"]) == (
        "False", "InsufficientDrives", "too few",
    )  # fmt: skip
    said = container("a", drives=2, uid=one.uid, status={"conditions": [condition(patch)]})
    world.see(node("n1", "S1"), said)
    assert world.patches() == [], "it is said once"
    world.now += timedelta(minutes=1)
    assert world.patches() == [], "and stays while the container is tried again"


def test_a_held_lease_is_a_condition_once_it_is_held_for_long() -> None:
    one = container("a", drives=1)
    world = World(node("n1", "S1"), one)
    blocker = Blocker("LeaseHeld", "the lease ns/weka-allocator-n1 is held by other/b since 2026-01-01T00:00:00Z")
    world.end(Ended(world.task(), blocker=blocker))
    assert world.patches() == [], "held for a moment is normal"
    world.now += LEASE_HELD_GRACE
    world.end(Ended(world.task(), blocker=blocker))
    (patch,) = world.patches()
    assert (condition(patch)["reason"], condition(patch)["message"]) == ("LeaseHeld", blocker.message)
    world.end(Ended(world.task()))
    assert world.patches() == []


def test_a_missing_lease_namespace_is_a_condition_at_once() -> None:
    one = container("a", drives=1)
    world = World(node("n1", "S1"), one)
    world.end(Ended(world.task(), blocker=Blocker("NoLeaseNamespace", "create it")))
    (patch,) = world.patches()
    assert condition(patch)["reason"] == "NoLeaseNamespace"


def test_a_cluster_without_ports_is_waited_for() -> None:
    one = container("a", drives=1, cluster="c1")
    world = World(node("n1", "S1"), one, weka_cluster("c1"))
    assert world.decide().waiting == ()
    assert [condition(patch)["reason"] for patch in world.patches()] == ["NoClusterPorts"]
    assert world.decide().problems == ()
    ready = weka_cluster("c1", basePort=40000, portRange=500, lbPort=40000, s3Port=40100)
    world.see(node("n1", "S1"), one, ready)
    assert world.task().clusters == (("c1", ready.status.ports),)
    assert set(world.controller.keys(WEKA_CLUSTERS, ready, world.view)) == {KEY}


def test_what_a_session_found_lost_stays_lost() -> None:
    one, waiting = container("a", drives=1), container("b", drives=1)
    world = World(node("n1", "S1"), one, waiting, pod_of(one))
    world.end(Ended(world.task(), lost=frozenset({one.uid})))
    assert world.decide().reason.code == "AllocationLost"


def test_a_status_that_is_lost_stops_the_node_and_says_what_to_do() -> None:
    lost = container("lost", drives=2, status={"containerID": 7})
    waiting = container("waiting", drives=1)
    world = World(node("n1", "S1", "S2", "S3"), lost, waiting, pod_of(lost))
    decision = world.decide()
    assert decision.reason.code == "AllocationLost"
    assert [blocker.code for blocker in decision.blockers] == ["AllocationLost"]
    (patch,) = world.patches()
    assert patch.target.name == "lost"
    assert "plimsoll allocation restore default/lost" in condition(patch)["message"]
    assert patch.event is not None
    assert patch.event.reason == "AllocationLost"
    said = container("lost", drives=2, uid=lost.uid, status={"conditions": [condition(patch)]})
    world.see(node("n1", "S1"), said, waiting, pod_of(said))
    assert world.patches() == []
    (event,) = world.decide().events
    assert (event.regarding.name, event.reason) == ("waiting", "AllocationHeldUp")


@pytest.mark.parametrize("fields", [{"phase": "Succeeded"}, {"terminating": True}])
def test_a_pod_that_is_over_loses_nothing(fields: dict[str, Any]) -> None:
    one = container("a", drives=1)
    assert World(node("n1", "S1"), one, pod_of(one, **fields)).task().turn == (one.uid,)


def test_the_pod_of_a_namesake_that_is_gone_loses_nothing() -> None:
    former, now = container("a", drives=1), container("a", drives=1)
    assert World(node("n1", "S1"), now, pod_of(former)).task().turn == (now.uid,)


def test_a_container_whose_whole_status_is_lost_is_found_by_its_pod() -> None:
    lost = container("lost", node="", drives=1, status={"containerID": 7})
    world = World(node("n1", "S1"), lost, container("b", drives=1), pod_of(lost))
    assert world.decide().reason.code == "AllocationLost"


def test_a_drive_that_is_blocked_after_it_was_given_is_reported_and_kept() -> None:
    world = World(
        build.node("n1", annotations={DRIVES: '["S1", "S2"]', BLOCKED: '["S1"]'}),
        holding("a", drives=("S1",), port=35000, agent=35300),
    )
    (problem,) = world.decide().problems
    assert problem.code == "AllocatedDriveBlocked"
    assert "S1" in problem.message
    assert world.decide().actions == ()


def test_what_two_containers_hold_is_reported_on_both() -> None:
    world = World(
        node("n1", "S1"),
        holding("a1", drives=("S1",), port=1, agent=500),
        holding("b", drives=("S1",), port=200, agent=501),
        holding("a", port=400, agent=502),  # whose name is only the beginning of another's
    )
    assert [(p.code, p.regarding.name) for p in world.decide().problems] == [
        ("AllocationConflict", "a1"),
        ("AllocationConflict", "b"),
    ]


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_which_nodes_a_change_concerns() -> None:
    world = World()
    keys = world.controller.keys
    assert set(keys(WEKA_CONTAINERS, container("a"), world.view)) == {KEY}
    moved = container("a", node="n2", status={"nodeAffinity": "n1", "allocations": {"wekaPort": 1}})
    assert set(keys(WEKA_CONTAINERS, moved, world.view)) == {KEY, Key("Node", "", "n2")}
    assert set(keys(NODES, node("n1"), world.view)) == {KEY, Key("Lease", "weka-operator-system", "")}
    assert set(keys(PODS, pod_of(container("a")), world.view)) == {KEY}
    assert set(keys(PODS, build.pod(node="n1"), world.view)) == set()
