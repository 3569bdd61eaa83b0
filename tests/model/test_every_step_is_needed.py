"""Without any one of its steps the protocol allocates a drive twice, and the checker notices."""

from __future__ import annotations

import pytest

from tests.model.broken import WithoutClearing, WithoutEpochCheck, WithoutProposals, WithStaleLists
from tests.model.explore import BrokenError, explore
from tests.model.world import Moves, Rules


@pytest.mark.parametrize("broken", [WithoutEpochCheck, WithoutProposals, WithoutClearing, WithStaleLists])
def test_without_it_a_drive_is_given_twice(broken: type[Rules]) -> None:
    rules = broken(operators=2, moves=Moves(epochs=3), coarse=True)
    with pytest.raises(BrokenError, match="S1: ") as found:
        explore(rules)
    assert found.value.steps < 20
