"""The seven actions and their order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.controllers.placement.rebalance.next_action import NextAction, ReplicaState
from plimsoll.controllers.placement.target import CapacityClass, Share, Target, target


@pytest.mark.parametrize(
    ("spot", "on_demand", "action"),
    [
        (6, 4, NextAction.NONE),
        (0, 0, NextAction.SCALE_UP_ON_DEMAND),  # both lack: on-demand first
        (6, 3, NextAction.SCALE_UP_ON_DEMAND),
        (5, 4, NextAction.SCALE_UP_SPOT),
        (3, 6, NextAction.SCALE_UP_SPOT),  # the total first, although on-demand has too many
        (8, 4, NextAction.SCALE_DOWN_SPOT),
        (7, 5, NextAction.SCALE_DOWN_SPOT),  # both exceed: spot first
        (6, 5, NextAction.SCALE_DOWN_ON_DEMAND),
        (4, 6, NextAction.MIGRATE_TO_SPOT),
        (7, 3, NextAction.MIGRATE_TO_ON_DEMAND),
    ],
)
def test_the_action_for_six_spot_and_four_on_demand(spot: int, on_demand: int, action: NextAction):
    state = ReplicaState(spot, on_demand, Target(6, 4))
    assert state.next_action() is action
    assert state.needs_reconciliation is (action is not NextAction.NONE)


counts = st.integers(0, 50)


@given(counts, counts, st.integers(0, 50), st.integers(0, 60), st.integers(0, 100))
def test_following_the_actions_arrives_and_stays(
    spot: int, on_demand: int, replicas: int, minimum: int, percentage: int
):
    desired = target(replicas, Share(minimum, percentage))
    for _ in range(300):
        state = ReplicaState(spot, on_demand, desired)
        match state.next_action():
            case NextAction.NONE:
                assert not state.needs_reconciliation
                return
            case NextAction.SCALE_UP_ON_DEMAND:
                on_demand += 1
            case NextAction.SCALE_UP_SPOT:
                spot += 1
            case NextAction.SCALE_DOWN_SPOT:
                spot -= 1
            case NextAction.SCALE_DOWN_ON_DEMAND:
                on_demand -= 1
            case NextAction.MIGRATE_TO_SPOT:
                on_demand, spot = on_demand - 1, spot + 1
                assert on_demand >= min(minimum, replicas)
            case NextAction.MIGRATE_TO_ON_DEMAND:
                on_demand, spot = on_demand + 1, spot - 1
    raise AssertionError("it never arrives")


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 100))
def test_admitting_replicas_one_by_one_ends_in_the_target(replicas: int, minimum: int, percentage: int):
    desired = target(replicas, Share(minimum, percentage))
    spot = on_demand = 0
    for _ in range(replicas):
        if ReplicaState(spot, on_demand, desired).next_class() is CapacityClass.SPOT:
            spot += 1
        else:
            on_demand += 1
        assert on_demand >= min(minimum, spot + on_demand)  # the minimum is there before any spot is
    assert Target(spot, on_demand) == desired
