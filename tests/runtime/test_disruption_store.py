"""Disruptions are recorded before they happen, and the next leader reads them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from plimsoll.disruption.entries import KIND
from plimsoll.disruption.ledger import Disruption
from plimsoll.disruption.store import AnotherLeader, DisruptionStore
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import AlreadyExists, Ambiguous, Conflict, KubeError, ServerError
from plimsoll.kube.shards import LABEL, SHARDS
from plimsoll.kube.types.resources import CONFIGMAPS, Key
from tests.clocks import PushedClock

HOUR = timedelta(hours=1)


def disruption(number: int, clock: PushedClock, workload: str = "web") -> Disruption:
    return Disruption(
        Key("Deployment", "default", workload), f"default/web-{number}", f"uid-{number}", clock.monotonic()
    )


async def test_what_was_written_down_is_recalled_by_another_process(client: Client, namespace: str):
    clock, later = PushedClock(), PushedClock()
    memory = DisruptionStore(client, clock, namespace=namespace, period=HOUR)
    assert await memory.recall() == ()
    for number in range(3):
        await memory.remember(disruption(number, clock))
    later.wall_offset = timedelta(minutes=10)
    recalled = await DisruptionStore(client, later, namespace=namespace, period=HOUR).recall()
    assert [(d.pod, d.uid, d.workload.name) for d in recalled] == [
        (f"default/web-{number}", f"uid-{number}", "web") for number in range(3)
    ]
    # Ten minutes old, on the new process's own clock.
    assert all(595 < later.monotonic() - d.at < 660 for d in recalled)


async def test_what_no_longer_counts_is_neither_recalled_nor_kept(client: Client, namespace: str):
    clock = PushedClock()
    memory = DisruptionStore(client, clock, namespace=namespace, period=HOUR)
    await memory.remember(disruption(1, clock))
    clock.wall_offset = timedelta(minutes=61)
    assert await memory.recall() == ()
    await memory.remember(disruption(2, clock))
    (config_map,) = (await client.list(CONFIGMAPS, namespace, label_selector=f"{LABEL}={KIND}")).items
    assert list(config_map.data) == ["uid-2"]


async def test_workloads_are_spread_over_a_bounded_number_of_objects(client: Client, namespace: str):
    clock = PushedClock()
    memory = DisruptionStore(client, clock, namespace=namespace, period=HOUR)
    for number in range(40):
        await memory.remember(disruption(number, clock, workload=f"web-{number}"))
    config_maps = (await client.list(CONFIGMAPS, namespace, label_selector=f"{LABEL}={KIND}")).items
    assert 2 <= len(config_maps) <= SHARDS
    assert len(await memory.recall()) == 40


async def test_an_entry_that_cannot_be_read_counts_as_a_disruption(client: Client, namespace: str):
    clock = PushedClock()
    memory = DisruptionStore(client, clock, namespace=namespace, period=HOUR)
    await memory.remember(disruption(1, clock))
    (config_map,) = (await client.list(CONFIGMAPS, namespace, label_selector=f"{LABEL}={KIND}")).items
    await client.patch(CONFIGMAPS, namespace, config_map.name, {"data": {"uid-1": "edited by hand"}})
    assert [d.uid for d in await memory.recall()] == ["uid-1"]


async def test_a_clock_that_was_ahead_makes_an_entry_young_not_immortal(client: Client, namespace: str):
    ahead, clock = PushedClock(), PushedClock()
    ahead.wall_offset = timedelta(hours=2)
    await DisruptionStore(client, ahead, namespace=namespace, period=HOUR).remember(disruption(1, ahead))
    (recalled,) = await DisruptionStore(client, clock, namespace=namespace, period=HOUR).recall()
    assert recalled.at <= clock.monotonic()


async def test_what_another_tenure_has_written_must_be_known_before_more_is_disrupted(client: Client, namespace: str):
    clock, wrong = PushedClock(), PushedClock()
    wrong.wall_offset = timedelta(hours=-3)  # its entries seem to be long over
    ours, theirs = (DisruptionStore(client, c, namespace=namespace, period=HOUR) for c in (clock, wrong))
    await ours.recall()
    await theirs.recall()
    await theirs.remember(disruption(1, wrong))
    with pytest.raises(AnotherLeader, match="default/web-1") as caught:
        await ours.remember(disruption(2, clock))
    (learnt,) = caught.value.disruptions
    assert (learnt.uid, learnt.ours) == ("uid-1", True)
    assert clock.monotonic() - learnt.at < 60  # as young as can be, whatever their clock said
    (config_map,) = (await client.list(CONFIGMAPS, namespace, label_selector=f"{LABEL}={KIND}")).items
    assert list(config_map.data) == ["uid-1"]
    await ours.remember(disruption(2, clock))
    with pytest.raises(AnotherLeader, match="default/web-2"):
        await theirs.remember(disruption(3, wrong))


@pytest.mark.parametrize("there", [False, True], ids=["first entry", "one more entry"])
async def test_of_two_that_write_at_once_only_one_passes(client: Client, namespace: str, there: bool):
    clock = PushedClock()
    if there:
        await DisruptionStore(client, clock, namespace=namespace, period=HOUR).remember(disruption(9, clock))
    tenures = [DisruptionStore(client, clock, namespace=namespace, period=HOUR) for _ in range(4)]
    for memory in tenures:
        await memory.recall()
    attempts = (memory.remember(disruption(number, clock)) for number, memory in enumerate(tenures))
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, AnotherLeader | Conflict | AlreadyExists)]
    assert len(refused) == 3
    assert len(await tenures[0].recall()) == there + 1


async def test_a_process_does_not_take_its_own_entries_for_anothers(client: Client, namespace: str):
    clock = PushedClock()
    memory = DisruptionStore(client, clock, namespace=namespace, period=HOUR)
    for number in range(3):
        await memory.remember(disruption(number, clock))
    again = DisruptionStore(client, clock, namespace=namespace, period=HOUR)
    await again.recall()
    await again.remember(disruption(3, clock))
    await again.remember(disruption(3, clock))  # the same pod once more: the first attempt may have been in vain
    assert len(await again.recall()) == 4


async def test_losses_are_kept_and_are_not_taken_for_ours(client: Client, namespace: str):
    clock = PushedClock()
    memory = DisruptionStore(client, clock, namespace=namespace, period=HOUR)
    asked = disruption(0, clock)
    await memory.remember(asked)
    losses = [
        Disruption(Key("Deployment", "default", f"web-{n % 3}"), f"default/web-{n}", f"uid-{n}", asked.at, ours=False)
        for n in range(10)
    ]
    assert not any(memory.holds(loss) for loss in losses[1:])
    await memory.keep(losses)
    assert all(memory.holds(loss) for loss in losses)
    recalled = await DisruptionStore(client, clock, namespace=namespace, period=HOUR).recall()
    assert {d.uid: d.ours for d in recalled} == {f"uid-{n}": n == 0 for n in range(10)}


@pytest.mark.parametrize("verb", ["create", "patch"])
@pytest.mark.parametrize("problem", [ServerError(500, "InternalError"), Ambiguous("no reply")], ids=["refused", "lost"])
async def test_a_loss_that_could_not_be_written_down_is_not_taken_for_kept(
    client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch, verb: str, problem: KubeError
):
    clock = PushedClock()
    memory = DisruptionStore(client, clock, namespace=namespace, period=HOUR)
    if verb == "patch":
        await memory.remember(disruption(0, clock))
    loss = replace(disruption(1, clock), ours=False)

    async def fails(*_: object, **__: object) -> None:
        raise problem

    with monkeypatch.context() as broken:
        broken.setattr(client, verb, fails)
        with pytest.raises(type(problem)):
            await memory.keep([loss])
    assert not memory.holds(loss)
    await memory.keep([loss])
    assert memory.holds(loss)
    assert loss.uid in {d.uid for d in await DisruptionStore(client, clock, namespace=namespace, period=HOUR).recall()}


@pytest.mark.parametrize("there", [False, True], ids=["first entry", "one more entry"])
async def test_an_entry_whose_reply_was_lost_is_not_taken_for_anothers(
    client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch, there: bool
):
    clock = PushedClock()
    memory = DisruptionStore(client, clock, namespace=namespace, period=HOUR)
    if there:
        await memory.remember(disruption(0, clock))
    verb = "patch" if there else "create"
    write = getattr(client, verb)

    async def unheard(*args: Any, **kwargs: Any) -> None:
        await write(*args, **kwargs)
        raise Ambiguous("the reply was lost")

    with monkeypatch.context() as broken:
        broken.setattr(client, verb, unheard)
        with pytest.raises(Ambiguous):
            await memory.remember(disruption(1, clock))
    await memory.remember(disruption(2, clock))
