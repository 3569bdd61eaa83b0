"""Disruptions are written down before they happen, and are known to whoever leads next."""

from __future__ import annotations

from datetime import timedelta

from plimsoll.disruption import Disruption
from plimsoll.kube.client import Client
from plimsoll.kube.resources import CONFIGMAPS, Key
from plimsoll.memory import DisruptionMemory
from plimsoll.remembered import KIND, LABEL, SHARDS
from tests.clocks import PushedClock

HOUR = timedelta(hours=1)


def disruption(number: int, clock: PushedClock, workload: str = "web") -> Disruption:
    return Disruption(
        Key("Deployment", "default", workload), f"default/web-{number}", f"uid-{number}", clock.monotonic()
    )


async def test_what_was_written_down_is_recalled_by_another_process(client: Client, namespace: str):
    clock, later = PushedClock(), PushedClock()
    memory = DisruptionMemory(client, clock, namespace=namespace, period=HOUR)
    assert await memory.recall() == ()
    for number in range(3):
        await memory.remember(disruption(number, clock))
    later.wall_offset = timedelta(minutes=10)
    recalled = await DisruptionMemory(client, later, namespace=namespace, period=HOUR).recall()
    assert [(d.pod, d.uid, d.workload.name) for d in recalled] == [
        (f"default/web-{number}", f"uid-{number}", "web") for number in range(3)
    ]
    # Ten minutes old, on the new process's own clock.
    assert all(595 < later.monotonic() - d.at < 660 for d in recalled)


async def test_what_no_longer_counts_is_neither_recalled_nor_kept(client: Client, namespace: str):
    clock = PushedClock()
    memory = DisruptionMemory(client, clock, namespace=namespace, period=HOUR)
    await memory.remember(disruption(1, clock))
    clock.wall_offset = timedelta(minutes=61)
    assert await memory.recall() == ()
    await memory.remember(disruption(2, clock))
    (config_map,) = (await client.list(CONFIGMAPS, namespace, label_selector=f"{LABEL}={KIND}")).items
    assert list(config_map.data) == ["uid-2"]


async def test_workloads_are_spread_over_a_bounded_number_of_objects(client: Client, namespace: str):
    clock = PushedClock()
    memory = DisruptionMemory(client, clock, namespace=namespace, period=HOUR)
    for number in range(40):
        await memory.remember(disruption(number, clock, workload=f"web-{number}"))
    config_maps = (await client.list(CONFIGMAPS, namespace, label_selector=f"{LABEL}={KIND}")).items
    assert 2 <= len(config_maps) <= SHARDS
    assert len(await memory.recall()) == 40


async def test_an_entry_that_cannot_be_read_counts_as_a_disruption(client: Client, namespace: str):
    clock = PushedClock()
    memory = DisruptionMemory(client, clock, namespace=namespace, period=HOUR)
    await memory.remember(disruption(1, clock))
    (config_map,) = (await client.list(CONFIGMAPS, namespace, label_selector=f"{LABEL}={KIND}")).items
    await client.patch(CONFIGMAPS, namespace, config_map.name, {"data": {"uid-1": "edited by hand"}})
    assert [d.uid for d in await memory.recall()] == ["uid-1"]


async def test_a_clock_that_was_ahead_makes_an_entry_young_not_immortal(client: Client, namespace: str):
    ahead, clock = PushedClock(), PushedClock()
    ahead.wall_offset = timedelta(hours=2)
    await DisruptionMemory(client, ahead, namespace=namespace, period=HOUR).remember(disruption(1, ahead))
    (recalled,) = await DisruptionMemory(client, clock, namespace=namespace, period=HOUR).recall()
    assert recalled.at <= clock.monotonic()
