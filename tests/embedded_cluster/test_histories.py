"""Random days with the operator at work: S1 to S13 are looked for at every step, and L1 to L3 once it is quiet."""

from __future__ import annotations

import pytest

from plimsoll.embedded_cluster.clocks import run_virtually
from tests.embedded_cluster.histories import Day


@pytest.mark.parametrize("seed", range(50))
def test_a_day_of_everything(seed: int) -> None:
    run_virtually(Day(seed).live(events=36))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 2000))
def test_many_days_of_everything(seed: int) -> None:
    run_virtually(Day(seed).live(events=60))
