"""Who may take a node's lease, and when it is known to be taken."""

from __future__ import annotations

from plimsoll.controllers.allocation.lease import NONCE, lease_name
from plimsoll.controllers.allocation.session import Ended, ListingContainers
from plimsoll.kube.lease_observation import LeaseObservation
from plimsoll.runtime.decision import Create, Patch
from plimsoll.runtime.transaction import Get, ListAll
from tests.allocation.sessions import Talk, lease, own_lease


def test_the_lease_is_looked_at_first() -> None:
    talk = Talk()
    assert isinstance(talk.request, Get)
    assert (talk.request.namespace, talk.request.name) == ("system", "weka-allocator-n1")


def test_one_that_is_not_there_is_made_as_the_specification_has_it() -> None:
    talk = Talk()
    talk.found(None)
    (made,) = talk.writes
    assert isinstance(made, Create)
    assert made.body["metadata"]["annotations"] == {NONCE: "me/1"}
    assert made.body["spec"]["holderIdentity"] == "default/c"
    assert made.body["spec"]["leaseDurationSeconds"] == 15


def test_one_that_nobody_holds_is_taken_at_once_under_its_version() -> None:
    talk = Talk()
    talk.found(lease(holder=""))
    (taken,) = talk.writes
    assert isinstance(taken, Patch)
    assert (taken.target.uid, taken.target.resource_version, taken.if_unchanged) == ("lease-uid", "77", True)


def test_one_that_is_held_is_respected_and_remembered() -> None:
    talk = Talk()
    talk.found(lease())
    assert talk.end.status == "refused"
    assert talk.end.blocker is not None
    assert talk.end.blocker.code == "LeaseHeld"
    assert "other/x" in talk.end.detail
    assert isinstance(talk.state, Ended)
    assert talk.state.observation == LeaseObservation("lease-uid", "77", 1000.0)


def test_one_that_does_not_change_for_its_duration_is_taken() -> None:
    talk = Talk(observation=LeaseObservation("lease-uid", "77", 985.1))
    talk.found(lease())
    assert talk.end.status == "refused"
    talk = Talk(observation=LeaseObservation("lease-uid", "77", 985.0))
    talk.found(lease())
    assert isinstance(talk.writes[0], Patch)


def test_the_duration_that_its_holder_wrote_counts() -> None:
    """Another version may be configured otherwise."""
    talk = Talk(observation=LeaseObservation("lease-uid", "77", 985.0))
    talk.found(lease(duration=60))
    assert talk.end.status == "refused"
    talk = Talk(observation=LeaseObservation("lease-uid", "77", 985.0))
    talk.found(lease(duration=0))
    assert isinstance(talk.writes[0], Patch), "one that says nothing lasts as long as ours"


def test_a_lease_that_changed_meanwhile_is_respected_anew() -> None:
    talk = Talk(observation=LeaseObservation("lease-uid", "76", 900.0))
    talk.found(lease())
    assert talk.end.status == "refused"


def test_time_stamps_in_the_lease_are_not_believed() -> None:
    """Another machine's clock may be an hour off; only how long the record stays the same counts."""
    talk = Talk()
    talk.found(lease(duration=1))
    assert talk.end.status == "refused"


def test_what_an_earlier_session_of_this_process_left_is_taken_at_once() -> None:
    talk = Talk()
    talk.found(lease(nonce="me/0"))
    assert isinstance(talk.writes[0], Patch)


def test_the_same_name_with_another_nonce_is_someone_else() -> None:
    talk = Talk()
    talk.found(lease(holder="default/c", nonce="you/1"))
    assert talk.end.status == "refused"
    talk = Talk()
    talk.found(lease(holder="default/c", nonce="me2/1"))
    assert talk.end.status == "refused"


def test_another_who_is_faster_is_waited_for() -> None:
    talk = Talk()
    talk.found(None)
    talk.answered("conflict")
    assert talk.end.blocker is not None


def test_a_lease_that_was_removed_meanwhile_is_made_the_next_time() -> None:
    talk = Talk()
    talk.found(lease(holder=""))
    talk.answered("gone")
    assert talk.end.blocker is not None
    assert talk.end.blocker.code == "LeaseHeld"


def test_a_namespace_that_is_not_there_is_named() -> None:
    talk = Talk()
    talk.found(None)
    talk.answered("gone")
    assert talk.end.status == "failed", "it is tried again, later each time"
    assert talk.end.blocker is not None
    assert talk.end.blocker.code == "NoLeaseNamespace"
    assert "namespace system for the node leases does not exist" in talk.end.detail
    assert "allocation.namespace" in talk.end.detail


def test_after_a_lost_reply_the_nonce_decides() -> None:
    talk = Talk()
    talk.found(None)
    talk.answered("unknown")
    assert isinstance(talk.request, Get)
    talk.found(own_lease("612"))
    assert isinstance(talk.request, ListAll)
    assert isinstance(talk.state, ListingContainers)
    assert talk.state.session.epoch == "612"


def test_after_a_lost_reply_another_nonce_is_someone_elses_lease() -> None:
    for found in (lease(holder="default/c", nonce="me/0"), lease(holder="default/c", nonce="you/1"), None):
        talk = Talk()
        talk.found(None)
        talk.answered("unknown")
        talk.found(found)
        assert talk.end.status == "refused"


def test_a_read_that_fails_ends_it() -> None:
    talk = Talk()
    talk.unread()
    assert talk.end.status == "failed"


def test_names_of_leases_are_always_valid() -> None:
    assert lease_name("n1") == "weka-allocator-n1"
    long = [lease_name("n" * 250 + end) for end in ("a", "b")]
    assert len(set(long)) == 2
    assert all(len(name) <= 253 for name in long)
