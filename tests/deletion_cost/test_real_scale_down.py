"""On the real control plane, where the ReplicaSet controller does the deleting: scale-downs stay even, whatever came before."""

from __future__ import annotations

from random import Random

import pytest

from plimsoll.controllers.deletion_cost.values import COST
from tests.deletion_cost.live import Live, annotations_of
from tests.deletion_cost.scene import TOP
from tests.faults.life import Life


async def test_nine_pods_as_four_three_two(live: Live) -> None:
    """The history that breaks the reference implementation, which leaves 1/2/0 of it."""
    life = await live.start()
    await live.deploy(9)
    await live.comes_to_rest(life)
    assert await live.by_zone() == {"a": 3, "b": 3, "c": 3}
    await live.move(
        (await live.in_zone("c"))[0], "a"
    )  # the one with the highest value: the rest keep a hole above them
    await live.comes_to_rest(life)
    assert await live.by_zone() == {"a": 4, "b": 3, "c": 2}
    assert await live.scale(6) == {"a": 2, "b": 2, "c": 2}
    await live.comes_to_rest(life)
    assert await live.scale(3) == {"a": 1, "b": 1, "c": 1}


async def test_without_the_operator_it_is_uneven(live: Live) -> None:
    """What the test above would see if values decided nothing: costs as the reference writes them, and nobody to mend them."""
    await live.deploy(9)
    values = {"a": [TOP, TOP - 1, TOP - 2], "b": [TOP, TOP - 1, TOP - 2], "c": [TOP - 1, TOP - 2, TOP - 3]}
    for zone, costs in values.items():
        for pod, cost in zip(await live.in_zone(zone), costs, strict=True):
            path = live.pod_path(pod["metadata"]["name"])
            await live.direct.patch(path, {"metadata": {"annotations": {COST: str(cost)}}})
    await live.move((await live.in_zone("c"))[0], "a")
    (fourth,) = [pod for pod in await live.in_zone("a") if COST not in annotations_of(pod)]
    path = live.pod_path(fourth["metadata"]["name"])
    await live.direct.patch(path, {"metadata": {"annotations": {COST: str(TOP - 3)}}})
    assert (await live.scale(6))["c"] < 2


LOST, MOVED, ROLLED_OUT, SCALED_UP = "lost", "moved", "rolled out", "scaled up"


@pytest.mark.parametrize(
    "history",
    [
        (LOST, MOVED, SCALED_UP, MOVED),
        (SCALED_UP, MOVED, ROLLED_OUT, MOVED),
        (MOVED, ROLLED_OUT, LOST, SCALED_UP),
        (ROLLED_OUT, LOST, MOVED, MOVED),
        (MOVED, SCALED_UP, LOST, MOVED),
        (LOST, SCALED_UP, ROLLED_OUT, MOVED),
    ],
    ids=", ".join,
)
async def test_histories(live: Live, history: tuple[str, ...]) -> None:
    """Random mixes of them, and longer ones, are in the campaigns."""
    rng = Random(", ".join(history))
    life = await live.start()
    await live.deploy(rng.randint(5, 8))
    for event in history:
        await happen(live, life, event, rng)
    await live.comes_to_rest(life)
    await life.stop()  # the order stands as it was written; nobody mends it on the way
    await live.scale_down_through_every_size()


async def happen(live: Live, life: Life, event: str, rng: Random) -> None:
    await live.comes_to_rest(life)
    pods = await live.pods()
    match event:
        case "lost":
            await live.delete(rng.choice(pods))
            await live.all_ready(len(pods))
        case "moved":
            await live.move(rng.choice(pods), rng.choice("abc"))
        case "rolled out":
            await live.roll_out()
        case _:
            await live.scale(len(pods) + rng.randint(1, 2))


async def test_all_at_once(live: Live) -> None:
    life = await live.start()
    await live.deploy(12)
    await live.comes_to_rest(life)
    assert set((await live.scale(4)).values()) == {1, 2}
    assert sorted(live.written()) == sorted(set(live.written())), "one write a pod"
