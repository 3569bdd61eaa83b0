"""Fault 20: a rollout or a scale-down while values are being written. It comes right, and no more is written than needed."""

from __future__ import annotations

from tests.deletion_cost.live import Live, writes
from tests.eventually import eventually
from tests.faults.faults import Hold, Slow


async def test_a_scale_down_while_values_are_written(live: Live) -> None:
    await live.deploy(9)
    hold = Hold()
    live.rules.add(writes, hold, skip=4, times=5)
    life = await live.start()
    await live.record.until(lambda record: len(record.of(writes)) == 9)
    await live.scale(5)  # four pods have values, five have none: Kubernetes takes whom it likes
    hold.released.set()
    await live.comes_to_rest(life)
    await life.stop()
    await live.scale_down_through_every_size()
    assert life.metric("plimsoll_actions_total", result="failed") == 0


async def test_a_rollout_while_values_are_written(live: Live) -> None:
    await live.deploy(6)
    life = await live.start()
    slow = live.rules.add(writes, Slow(0.1))
    await live.roll_out()
    await live.comes_to_rest(life)
    live.rules.drop(slow)
    await life.stop()
    await live.scale_down_through_every_size()


async def test_up_and_down_again_as_an_autoscaler_does(live: Live) -> None:
    life = await live.start()
    await live.deploy(3)
    live.rules.add(writes, Slow(0.05))
    for up, down in ((9, 4), (8, 6)):
        await live.scale(up)
        # One without a value would be lost before all others, whatever was meant for it, and leave a hole.
        await eventually(live.all_covered, "every pod has a value")
        await live.scale(down)
    await live.comes_to_rest(life)
    await life.stop()
    await live.scale_down_through_every_size()
    assert len(live.written()) == len(set(live.written())), "nothing was rewritten: each loss was the lowest value"
