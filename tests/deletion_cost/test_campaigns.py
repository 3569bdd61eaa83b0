"""The same proofs as elsewhere in this directory, at length."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings

from benchmarks.scale_down.__main__ import run
from benchmarks.scale_down.writers import Plimsoll
from plimsoll.controllers.deletion_cost.rewrites import fewest_rewrites
from tests.deletion_cost import test_fewest_rewrites as rewrites
from tests.deletion_cost.live import Live
from tests.deletion_cost.test_real_scale_down import LOST, MOVED, ROLLED_OUT, SCALED_UP, happen

pytestmark = pytest.mark.soak


@pytest.mark.timeout(3600)
def test_ten_thousand_histories() -> None:
    tally = run(10_000, seed=1_000_000)[Plimsoll.name]
    assert (tally.uneven, tally.seeds) == (0, [])


@pytest.mark.timeout(3600)
@settings(max_examples=5_000)
@given(rewrites.all_ours())
def test_brute_force_finds_nothing_better(zones: rewrites.Zones) -> None:
    moves = fewest_rewrites(zones, rewrites.CEILING)
    if 1 <= len(moves) <= 3:
        values = range(rewrites.CEILING - 8, rewrites.CEILING + 1)
        assert rewrites.by_trying_everything(zones, values, len(moves)) is None


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 150))
async def test_long_histories_on_the_real_control_plane(live: Live, seed: int) -> None:
    rng = Random(seed)
    life = await live.start()
    await live.deploy(rng.randint(5, 12))
    for _ in range(12):
        await happen(live, life, rng.choice([LOST, MOVED, ROLLED_OUT, SCALED_UP]), rng)
    await live.comes_to_rest(life)
    await life.stop()
    await live.scale_down_through_every_size()
