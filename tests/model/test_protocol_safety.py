"""Every interleaving of a few operators, within bounds: S1, S2 and S3 hold in each, and whatever is left can be mended.

A late write of a dead or stopped operator is one of the things that happen, so S9 is judged by the same rules: it may
arrive at any time, and S1 and S2 hold all the same.
"""

from __future__ import annotations

import pytest
import structlog

from tests.model.explore import Explored, explore, recovers
from tests.model.world import Moves, Rules

log = structlog.get_logger()


def _explore(rules: Rules, *, mended_from_every: int = 1) -> Explored:
    """`mended_from_every`: of so many stores, one is given to a fresh operator; the large runs would take hours else."""
    found = explore(rules)
    log.info("explored", moves=rules.moves, operators=rules.operators, states=found.states, stores=len(found.stores))
    stores = sorted(found.stores)[::mended_from_every]
    broken = [store for store in stores if not recovers(rules, store)]
    assert broken == [], "L1, L4: a fresh operator does not get to the end from here"
    return found


def test_two_operators_one_crash() -> None:
    found = _explore(Rules(operators=2, moves=Moves(epochs=3, crashes=1), coarse=True))
    assert found.states > 10_000


def test_three_operators() -> None:
    found = _explore(Rules(operators=3, moves=Moves(epochs=3), coarse=True))
    assert found.states > 20_000


def test_every_order_of_every_request_with_lost_replies() -> None:
    """Fine grain: looking at the lease and taking it are two steps, and the writes of a batch arrive in any order."""
    found = _explore(Rules(operators=2, moves=Moves(epochs=2, losses=1)))
    assert found.states > 2_000


def test_people_who_edit_and_delete_leases_and_containers() -> None:
    rules = Rules(operators=2, moves=Moves(epochs=2, edits=1), coarse=True)
    assert _explore(rules).states > 2_000


def test_one_drive_for_two() -> None:
    """The one who goes without waits; nobody ends up with half of something."""
    rules = Rules(operators=2, moves=Moves(epochs=3), drives=1, coarse=True)
    found = explore(rules)
    assert found.states > 500


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_three_operators_four_epochs() -> None:
    found = _explore(Rules(operators=3, moves=Moves(epochs=4), coarse=True), mended_from_every=5)
    assert found.states >= 200_000


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_two_operators_five_epochs_two_crashes() -> None:
    rules = Rules(operators=2, moves=Moves(epochs=5, crashes=2), coarse=True)
    assert _explore(rules, mended_from_every=20).states >= 200_000


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_order_of_every_request_with_crashes_and_lost_replies() -> None:
    rules = Rules(operators=2, moves=Moves(epochs=3, crashes=1, losses=1))
    assert _explore(rules, mended_from_every=20).states >= 200_000


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_people_who_meddle_for_longer() -> None:
    rules = Rules(operators=2, moves=Moves(epochs=4, edits=1), coarse=True)
    assert _explore(rules, mended_from_every=20).states >= 200_000
