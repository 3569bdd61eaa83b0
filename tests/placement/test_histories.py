"""Whatever happens to a workload, the operator itself breaks no rule of safety; once it stops happening, all is as it should
be, and stays so.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spot_backoff import LONGEST_PAUSE
from plimsoll.controllers.placement.target import Rounding, Share, target
from plimsoll.runtime.decision import DisruptionLimits
from tests.placement.world import World

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)

events = st.one_of(
    st.tuples(st.just("scale"), st.integers(0, 14)),
    st.tuples(st.just("ask_for"), st.integers(0, 100), st.integers(0, 4)),
    st.tuples(st.just("open_spot"), st.booleans()),
    st.tuples(st.just("interrupt"), st.sampled_from("ab")),
    st.tuples(st.just("lose"), st.sampled_from("ab")),
    st.tuples(st.just("lose_pod"), st.integers(0, 20)),
    st.tuples(st.just("fail_probe"), st.integers(0, 20)),
    st.tuples(st.just("webhook"), st.booleans()),
    st.tuples(st.just("restart")),
    st.tuples(st.just("pass"), st.integers(1, 40)),
)


def play(world: World, history: list[tuple[Any, ...]]) -> None:
    for name, *arguments in history:
        if name == "pass":
            for _ in range(arguments[0]):
                world.tick()
                world.operate()
        elif name == "webhook":
            world.webhook = arguments[0]
        else:
            getattr(world, name)(*arguments)
        world.operate()
        world.tick()
        world.operate()


@settings(max_examples=80, deadline=None)
@given(
    history=st.lists(events, max_size=14),
    count=st.integers(0, 12),
    percentage=st.integers(0, 100),
    minimum=st.integers(0, 4),
    budget=st.sampled_from([None, 1, 3]),
    rounding=st.sampled_from(Rounding),
    moving=st.sampled_from([0, 30]),
    external=st.booleans(),
)
def test_safe_at_every_step_and_settled_once_it_is_quiet(
    history: list[tuple[Any, ...]],
    count: int,
    percentage: int,
    minimum: int,
    budget: int | None,
    rounding: Rounding,
    moving: int,
    external: bool,
):
    placement = PlacementSettings(
        rounding=rounding,
        moving_percentage=moving,
        when_min_exceeds_replicas="on-demand",
        cooldown=timedelta(seconds=40),
        external_autoscaler=external,
        migrations=DisruptionLimits(6, 6, HOUR),
    )
    world = World(
        count=count, percentage=percentage, minimum=minimum, budget=budget, settings=placement,
        limits=DisruptionLimits(8, 8, HOUR),
    )  # fmt: skip
    play(world, history)

    # It is quiet: nodes are there again, the webhook answers, and nobody changes anything.
    world.open_spot(True)
    world.webhook = True
    world.lose("a")
    world.lose("b")
    wanted = target(world.workload.spec.replicas, Share(world.minimum, world.percentage, rounding))
    # Long enough for the longest pause, and for as many moves as there are replicas at six an hour.
    patience = 2 * LONGEST_PAUSE + HOUR * (world.workload.spec.replicas // 6 + 2)
    deadline = world.now + patience
    quiet = 0
    while world.now < deadline and quiet < 3:
        acted = bool(world.operate().actions)
        quiet = 0 if acted or world.split() != wanted else quiet + 1
        world.tick(MINUTE)
    # A workload of one replica is never moved: it would be an outage (L1 gives way to S4).
    if world.workload.spec.replicas > 1:
        assert world.split() == wanted, f"never came to {wanted}: {world.operate().reason}"
    before = len(world.evictions), world.writes
    for _ in range(40):
        world.tick(3 * MINUTE)
        world.operate()
    assert (len(world.evictions), world.writes) == before, "L2, L3: what is settled stays settled"


@settings(max_examples=60, deadline=None)
@given(history=st.lists(events, max_size=20), count=st.integers(1, 10))
def test_no_pod_is_evicted_twice(history: list[tuple[Any, ...]], count: int):
    world = World(
        count=count, percentage=60, minimum=1, budget=None, settings=PlacementSettings(),
        limits=DisruptionLimits(50, 50, HOUR),
    )  # fmt: skip
    play(world, history)
    uids = [uid for uid, _ in world.evictions]
    assert len(uids) == len(set(uids))


def test_a_shortage_that_does_not_end_costs_ever_fewer_tries():
    """Ten hours without spot and an autoscaler that never delivers: few serving replicas are given up, pending pods get on-demand."""
    world = World(
        count=10, percentage=60, minimum=2, budget=2, settings=PlacementSettings(external_autoscaler=True),
        limits=DisruptionLimits(100, 100, HOUR),
    )  # fmt: skip
    world.open_spot(False)
    while world.split().total < 10 and world.now.day == 1 and world.now.hour < 1:
        world.tick()
        world.operate()
    assert world.split().on_demand == 10, "everyone runs, on-demand"
    tries = []
    for _ in range(10):
        before = len(world.evictions)
        until = world.now + HOUR
        while world.now < until:
            world.tick()
            world.operate()
        tries.append(sum(1 for _, why in world.evictions[before:] if why == "MigratingToSpot"))
    assert sum(tries) <= 3, (
        "a place that is not proven is tried with one serving replica every few hours, not twice an hour"
    )
    world.open_spot(True)
    until = world.now + 2 * HOUR
    while world.now < until:
        world.tick()
        world.operate()
    assert world.split().spot == 6, "spot is back, and so is the workload"


def test_another_who_undoes_every_move_costs_one_try_each_ten_minutes():
    world = World(
        count=10, percentage=0, minimum=2, budget=2, settings=PlacementSettings(migrations=DisruptionLimits(50, 50, HOUR)),
        limits=DisruptionLimits(100, 100, HOUR),
    )  # fmt: skip
    world.tick()
    world.undone = True
    world.ask_for(60, 2)
    until = world.now + 2 * HOUR
    while world.now < until:
        world.tick()
        world.operate()
    assert 1 <= len(world.evictions) <= 13
    world.undone = False
    until = world.now + HOUR
    while world.now < until:
        world.tick()
        world.operate()
    assert world.split().spot == 6, "nobody undoes them any more"
