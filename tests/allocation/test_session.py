"""From the list to the commits, step by step: what is written, and what is not."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from plimsoll.controllers.allocation.conditions import PROPOSED, marker_of, proposal_of
from plimsoll.controllers.allocation.inventory import Inventory, SharedDrive
from plimsoll.controllers.allocation.lease import HOLDERS, holder_id
from plimsoll.controllers.allocation.session import Ended
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.runtime.decision import Patch
from plimsoll.runtime.transaction import Get, WriteResult, WritesDone
from tests import build
from tests.allocation.build import container, holding, weka_cluster
from tests.allocation.sessions import NODE, Talk, after, lease, own_lease

STALE = '{"node":"n1","epoch":"400","drives":["S1"],"weka_port":35000,"ports":100,"agent_port":35300}'


def proposed(name: str, message: str = STALE, **fields: Any) -> WekaContainer:
    condition = {"type": PROPOSED, "status": "True", "reason": "Proposed", "message": message}
    return container(name, drives=1, status={"status": "x", "conditions": [condition]}, **fields)


def test_propose_verify_commit_release() -> None:
    one = container("a", drives=2)
    talk = Talk()
    talk.serve(one)
    (proposal,) = talk.writes
    assert isinstance(proposal, Patch)
    assert proposal.subresource == "status"
    assert (proposal.target.uid, proposal.target.resource_version) == (one.uid, one.metadata.resource_version)
    assert "allocations" not in proposal.body["status"]  # type: ignore[call-overload]
    talk.applied()
    assert isinstance(talk.request, Get)
    talk.found(own_lease())
    (commit,) = talk.writes
    assert isinstance(commit, Patch)
    assert commit.target.resource_version != one.metadata.resource_version
    talk.applied()
    now = talk.known[one.uid]
    assert now.allocations.drives == ("S1", "S2")
    assert (now.allocations.weka_port, now.allocations.agent_port) == (35000, 35300)
    assert proposal_of(now) is None
    marker = marker_of(now)
    assert marker is not None
    assert (marker.node, marker.ports) == (NODE, 100)
    (release,) = talk.writes
    assert isinstance(release, Patch)
    assert release.body["spec"]["holderIdentity"] == ""  # type: ignore[call-overload]
    assert release.target.resource_version == "500"
    talk.applied()
    assert talk.end.status == "done"


def test_other_peoples_conditions_and_fields_are_kept() -> None:
    other = {
        "type": "Ready", "status": "False", "reason": "Starting", "message": "m", "observedGeneration": 3,
        "lastTransitionTime": "2026-01-01T00:00:00.5Z",
    }  # fmt: skip
    talk = Talk()
    talk.serve(container("a", status={"status": "Init", "conditions": [other]}))
    (proposal,) = talk.writes
    assert isinstance(proposal, Patch)
    status = proposal.body["status"]  # type: ignore[call-overload]
    assert status["conditions"][0] == other
    assert set(status) == {"conditions"}


def test_what_others_wrote_in_lists_goes_back_to_the_letter() -> None:
    """A merge patch replaces a list whole: with fields that we do not know, and empty ones that their kind insists on."""
    other = {"type": "Ready", "status": "True", "reason": "R", "message": "", "severity": "None"}
    theirs = {"virtualUUID": "v1", "physicalUUID": "uuid-S9", "capacityGiB": 5, "serial": "", "type": "", "model": "X"}
    status = {
        "status": "Running", "conditions": [other],
        "allocations": {"virtualDrives": [theirs], "wekaPort": 35000, "agentPort": 35300},
    }  # fmt: skip
    shared = Inventory(shared=(SharedDrive("uuid-S8", "S8", 1000),))
    talk = Talk(inventory=shared)
    talk.serve(container("a", spec={"driveCapacity": 400, "numDrives": 2}, status=status))
    talk.applied()
    talk.found(own_lease())
    (commit,) = talk.writes
    assert isinstance(commit, Patch)
    written = commit.body["status"]  # type: ignore[call-overload]
    assert written["conditions"][0] == other
    first, second = written["allocations"]["virtualDrives"]
    assert first == theirs
    assert set(second) == {"virtualUUID", "physicalUUID", "capacityGiB", "serial", "type"}
    assert (second["serial"], second["type"]) == ("S8", "")


def test_a_lease_that_is_not_as_we_took_it_stops_everything() -> None:
    another = structs.replace(own_lease(), metadata=structs.replace(own_lease().metadata, uid="another"))
    foreign = lease(holder="default/c", nonce="you/1", version="500")
    for found in (None, lease(), own_lease("501"), foreign, another):
        talk = Talk()
        talk.serve(container("a", drives=1))
        talk.applied()
        talk.found(found)
        assert talk.end.status == "conflict"


def test_what_could_not_be_proposed_is_not_committed() -> None:
    talk = Talk()
    talk.serve(container("a", drives=1), container("b", drives=1), container("c", drives=1))
    talk.say(_mixed(talk, "done", "conflict", "unknown"))
    talk.found(own_lease())
    assert [write.target.name for write in talk.writes if isinstance(write, Patch)] == ["a"]
    talk.applied()
    talk.applied()
    assert talk.end.status == "conflict"


def test_a_server_that_drops_our_condition_gets_no_commit() -> None:
    one = container("a", drives=1)
    talk = Talk()
    talk.serve(one)
    talk.answered("done", item=one)
    talk.applied()
    assert talk.end.status == "failed", "asked again at once, it would be the same"
    assert "dropped the condition AllocationProposed" in talk.end.detail


def test_a_write_that_the_server_refuses_is_tried_again_later_and_the_others_are_served() -> None:
    talk = Talk()
    talk.serve(container("a", drives=1), container("b", drives=1))
    talk.say(_mixed(talk, "failed", "done"))
    talk.found(own_lease())
    assert [write.target.name for write in talk.writes if isinstance(write, Patch)] == ["b"]
    talk.applied()
    talk.applied()
    assert talk.end.status == "failed", "a conflict would be tried again at once, and for ever"
    (event,) = talk.end.events
    assert (event.regarding.name, event.reason, event.type) == ("a", "AllocationFailed", "Warning")
    assert "cannot write the status of default/a" in event.message


def test_a_commit_or_a_clearing_that_the_server_refuses_is_tried_again_later() -> None:
    talk = Talk()
    talk.serve(container("a", drives=1))
    talk.applied()
    talk.found(own_lease())
    talk.answered("failed")
    talk.applied()
    assert talk.end.status == "failed"
    talk = Talk()
    talk.serve(proposed("a", deletionTimestamp="2026-01-01T00:00:00Z"))
    talk.answered("failed")
    talk.applied()
    assert talk.end.status == "failed"


def test_stale_proposals_are_cleared_before_they_count_as_free() -> None:
    old = proposed("a")
    talk = Talk(turn=("b-uid",))
    talk.serve(old, container("b", drives=1, uid="b-uid"))
    (clearing,) = talk.writes
    assert isinstance(clearing, Patch)
    assert clearing.body == {"status": {"conditions": []}}
    assert clearing.target.resource_version == old.metadata.resource_version
    talk.applied()
    assert [_drives(write) for write in talk.writes] == [("S1",), ("S2",)]


def test_a_stale_proposal_that_could_not_be_cleared_stays_taken() -> None:
    talk = Talk()
    talk.serve(proposed("a", deletionTimestamp="2026-01-01T00:00:00Z"), container("b", drives=1))
    talk.answered("conflict")
    assert [_drives(write) for write in talk.writes] == [("S2",)]


def test_a_container_that_is_gone_when_its_proposal_is_cleared_holds_nothing() -> None:
    talk = Talk()
    talk.serve(proposed("a"), container("b", drives=1))
    talk.answered("gone")
    assert [_drives(write) for write in talk.writes] == [("S1",)]


def test_a_proposal_newer_than_this_session_is_cleared_only_if_the_lease_is_still_ours() -> None:
    """It is a successor's, or a cluster was restored from a backup; only a live look can tell."""
    newer = STALE.replace("400", "900")
    talk = Talk()
    talk.serve(proposed("a", newer))
    assert isinstance(talk.request, Get)
    talk.found(lease(version="800"))
    assert talk.end.status == "conflict"
    talk = Talk()
    talk.serve(proposed("a", newer))
    talk.found(own_lease())
    assert isinstance(talk.writes[0], Patch)


def test_a_proposal_that_cannot_be_read_is_cleared_or_nothing_is_given_out() -> None:
    talk = Talk()
    talk.serve(proposed("a", "by hand"), container("b", drives=1))
    talk.found(own_lease())
    talk.answered("conflict")
    talk.applied()
    assert talk.end.status == "conflict"
    assert "unreadable" in talk.end.detail


def test_a_lost_status_stops_the_node() -> None:
    talk = Talk(running=frozenset({"a-uid"}))
    talk.serve(container("a", drives=1, uid="a-uid", status={"containerID": 1}), container("b", drives=1))
    talk.applied()
    assert talk.end.blocker is not None
    assert talk.end.blocker.code == "AllocationLost"
    assert "default/a" in talk.end.detail


def test_one_that_lost_the_name_of_its_node_too_stops_the_node_on_which_it_runs() -> None:
    talk = Talk(running=frozenset({"a-uid"}))
    talk.serve(container("a", node="", drives=1, uid="a-uid", status={"containerID": 1}), container("b", drives=1))
    talk.applied()
    assert talk.end.blocker is not None
    assert talk.end.blocker.code == "AllocationLost"


def test_the_lease_records_who_holds_something_and_that_outlives_a_whole_status() -> None:
    talk = Talk()
    talk.serve(
        container("a", drives=1, uid="a-uid"), holding("b", drives=("S3",), port=40000, agent=40100, uid="b-uid")
    )
    talk.applied()
    talk.found(own_lease())
    talk.applied()
    (release,) = talk.writes
    assert isinstance(release, Patch)
    record = release.body["metadata"]["annotations"][HOLDERS]  # type: ignore[call-overload]
    assert set(record.split(",")) == {holder_id("a-uid"), holder_id("b-uid")}

    later = Talk(running=frozenset({"a-uid", "new"}))
    free = structs.replace(lease(holder=""), metadata=structs.replace(lease().metadata, annotations={HOLDERS: record}))
    later.found(free)
    taken = structs.replace(free, metadata=structs.replace(free.metadata, resource_version="500"))
    later.known = {}
    later.answered("done", item=taken)
    later.listed(container("a", drives=1, uid="a-uid"), container("new", drives=1, uid="new"))
    (release,) = later.writes
    assert isinstance(release, Patch)
    assert release.body["metadata"]["annotations"][HOLDERS] == holder_id("a-uid")  # type: ignore[call-overload]
    later.applied()
    assert later.end.blocker is not None
    assert later.end.blocker.code == "AllocationLost"
    assert isinstance(later.state, Ended)
    assert later.state.lost == {"a-uid"}


def test_a_new_backend_whose_pod_runs_is_served() -> None:
    talk = Talk(running=frozenset({"a-uid"}))
    status = {"status": "PodRunning", "nodeAffinity": "n1"}
    talk.serve(container("a", node="", drives=1, uid="a-uid", status=status))
    talk.applied()
    talk.found(own_lease())
    (commit,) = talk.writes
    assert isinstance(commit, Patch)
    assert commit.body["status"]["allocations"]["drives"] == ["S1"]  # type: ignore[call-overload]


def test_the_failure_domain_is_written_with_the_allocation() -> None:
    talk = Talk(labels=(("rack", "r7"),))
    talk.serve(container("a", drives=1, spec={"failureDomain": {"label": "rack"}}))
    talk.applied()
    talk.found(own_lease())
    (commit,) = talk.writes
    assert isinstance(commit, Patch)
    assert commit.body["status"]["allocations"]["failureDomain"] == "r7"  # type: ignore[call-overload]


def test_ports_come_from_the_cluster_and_avoid_its_single_ports() -> None:
    ports = weka_cluster("c", basePort=45000, portRange=500, lbPort=45000, s3Port=45300, lbAdminPort=45301).status.ports
    talk = Talk(clusters=(("c", ports),))
    talk.serve(container("a", drives=1, cluster="c"))
    talk.applied()
    talk.found(own_lease())
    (commit,) = talk.writes
    assert isinstance(commit, Patch)
    allocations = commit.body["status"]["allocations"]  # type: ignore[call-overload]
    assert (allocations["wekaPort"], allocations["agentPort"]) == (45001, 45302)


def test_a_failed_drive_that_was_removed_from_the_list_is_replaced() -> None:
    """The storage operator first removes the failed drive and sorts the list; the drive is blocked on the node."""
    talk = Talk(inventory=Inventory(("S1", "S2", "S3"), blocked=frozenset({"S1"})))
    talk.serve(holding("a", drives=("S2",), port=35000, agent=35300, spec={"numDrives": 2}))
    talk.applied()
    talk.found(own_lease())
    (commit,) = talk.writes
    assert isinstance(commit, Patch)
    allocations = commit.body["status"]["allocations"]  # type: ignore[call-overload]
    assert (allocations["drives"], allocations["wekaPort"]) == (["S2", "S3"], 35000)


def test_a_held_lease_says_by_whom_and_since_when() -> None:
    talk = Talk()
    spec = structs.replace(lease().spec, acquire_time=build.START)
    talk.found(structs.replace(lease(), spec=spec))
    assert talk.end.blocker is not None
    assert talk.end.blocker.message == (
        f"the lease system/weka-allocator-n1 is held by other/x since {build.START:%Y-%m-%dT%H:%M:%SZ}"
    )
    assert isinstance(talk.state, Ended)
    assert talk.state.blocker == talk.end.blocker


def test_everyone_who_waits_is_served_in_turn_and_a_shortage_stops_nobody_else() -> None:
    big, one, two = (container(name, drives=n, uid=name) for name, n in (("big", 9), ("one", 2), ("two", 1)))
    talk = Talk(turn=("big", "two", "one"))
    talk.serve(big, one, two)
    assert [(write.target.name, _drives(write)) for write in talk.writes if isinstance(write, Patch)] == [
        ("two", ("S1",)),
        ("one", ("S2", "S3")),
    ]
    talk.applied()
    talk.found(own_lease())
    talk.applied()
    talk.applied()
    (event,) = talk.end.events
    assert (event.reason, event.type) == ("InsufficientDrives", "Warning")
    assert isinstance(talk.state, Ended)
    (refusal,) = talk.state.unserved
    assert refusal.container.name == "big"


def test_those_that_are_held_back_are_not_asked_again() -> None:
    talk = Talk(held_back=frozenset({"big"}))
    talk.serve(container("big", drives=9, uid="big"))
    talk.applied()
    assert talk.end.events == ()


def test_growth_adds_to_what_is_there() -> None:
    grown = holding("a", drives=("S2",), port=40000, agent=40100, spec={"numDrives": 2})
    talk = Talk()
    talk.serve(grown)
    talk.applied()
    talk.found(own_lease())
    talk.applied()
    now = talk.known[grown.uid].allocations
    assert (now.drives, now.weka_port, now.agent_port) == (("S2", "S1"), 40000, 40100)


def test_a_container_on_another_node_is_no_concern_of_ours() -> None:
    talk = Talk()
    talk.serve(holding("a", drives=("S1",), node="n2"), container("b", drives=3))
    assert [_drives(write) for write in talk.writes] == [("S1", "S2", "S3")]


def test_session_ends_within_its_lease() -> None:
    """After half of its time it proposes no more; after all of it, it commits no more."""
    many = [container(f"c{n:02}", uid=f"c{n:02}") for n in range(40)]
    talk = Talk()
    talk.serve(*many)
    assert len(talk.writes) == 32
    talk.at += 6
    talk.applied()
    talk.found(own_lease())
    assert len(talk.writes) == 32
    talk.at += 5
    talk.applied()
    talk.applied()
    assert talk.end.status == "conflict"

    slow = Talk()
    slow.serve(*many)
    slow.applied()
    slow.applied()
    slow.at += 11
    slow.found(own_lease())
    (release,) = slow.writes
    assert release.why.code == "ReleaseLease"


def test_a_list_that_fails_gives_the_lease_back() -> None:
    talk = Talk()
    talk.known = {}
    talk.found(None)
    talk.applied()
    talk.unread()
    assert talk.writes[0].why.code == "ReleaseLease"
    talk.applied()
    assert talk.end.status == "failed"


def _drives(write: Any) -> tuple[str, ...]:
    conditions = [one for one in write.body["status"]["conditions"] if one["type"] == PROPOSED]
    (found,) = [proposal_of(container("x", status={"conditions": [one]})) for one in conditions]
    assert found is not None
    return found.drives


def _mixed(talk: Talk, *words: str) -> Any:
    answers = tuple(
        WriteResult(status, after(write, talk.known) if status == "done" else None)  # type: ignore[arg-type]
        for status, write in zip(words, talk.writes, strict=True)
    )
    return WritesDone(talk.moment, answers)
