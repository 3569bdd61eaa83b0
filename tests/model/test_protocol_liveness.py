"""L1 without faults: every interleaving ends with all containers served."""

from __future__ import annotations

import pytest

from tests.model.explore import explore
from tests.model.world import Moves, Rules


@pytest.mark.parametrize("operators", [1, 2, 3])
def test_every_way_ends_with_everyone_served(operators: int) -> None:
    rules = Rules(operators=operators, moves=Moves(epochs=operators + 2), fair_weather=True)
    found = explore(rules)
    assert found.ends
    for world in found.ends:
        assert rules.satisfied(world.store), "nothing more can happen, and someone waits"
        assert world.left.epochs, "it took more sessions than there are operators"
