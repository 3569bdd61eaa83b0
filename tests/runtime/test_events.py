"""Events on a real API server: recorded in the background, repeats as a series, within a budget for each object."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from plimsoll.kube.client.client import Client
from plimsoll.kube.events import BURST_PER_OBJECT, EventRecorder, NewEvent, shortened
from plimsoll.kube.types.events import Event
from plimsoll.kube.types.resources import EVENTS
from tests.clocks import PushedClock
from tests.eventually import eventually


class Recording:
    def __init__(self, client: Client, namespace: str) -> None:
        self.client, self.namespace = client, namespace
        self.clock = PushedClock()
        self.results: Counter[str] = Counter()
        self.recorder = EventRecorder(
            client, self.clock, controller="plimsoll.dev/test", instance="here",
            on_result=lambda result: self.results.update([result]),
        )  # fmt: skip

    def record(self, note: str = "all is well", name: str = "web", reason: str = "Tested") -> None:
        self.recorder.record(
            NewEvent("apps/v1", "Deployment", self.namespace, name, f"uid-{name}", reason, note, action="Test")
        )

    async def events(self) -> list[Event]:
        return list((await self.client.list(EVENTS, self.namespace)).items)


@pytest.fixture
async def recording(client: Client, namespace: str) -> AsyncIterator[Recording]:
    made = Recording(client, namespace)
    task = asyncio.create_task(made.recorder.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_event_says_what_about_whom(recording: Recording):
    recording.record("moved to spot")
    (event,) = await eventually(recording.events)
    assert (event.reason, event.note, event.type, event.action) == ("Tested", "moved to spot", "Normal", "Test")
    assert (event.regarding.kind, event.regarding.name, event.regarding.uid) == ("Deployment", "web", "uid-web")
    assert event.reporting_controller == "plimsoll.dev/test"


async def test_repeats_become_a_series_of_one_event(recording: Recording):
    for _ in range(5):
        recording.record()

    async def counted() -> bool:
        events = await recording.events()
        return len(events) == 1 and events[0].series is not None and events[0].series.count >= 2

    await eventually(counted)
    recording.clock.push(11)
    recording.record()

    async def told_all() -> bool:
        (event,) = await recording.events()
        return event.series is not None and event.series.count == 6

    await eventually(told_all)


async def test_a_count_is_told_though_something_else_always_happens(recording: Recording):
    for _ in range(3):
        recording.record()
    await eventually(lambda: recording.results["repeated"] == 1)  # the second at once, the third later
    recording.clock.push(11)
    others = itertools.count()

    async def told() -> bool:
        recording.record(name=f"other-{next(others)}")
        series = [event.series for event in await recording.events() if event.regarding.name == "web"]
        return series[0] is not None and series[0].count == 3

    await eventually(told)


async def test_after_a_while_the_same_is_news_again(recording: Recording):
    recording.record()
    await eventually(lambda: recording.results["created"] == 1)
    recording.clock.push(361)
    recording.record()
    await eventually(lambda: recording.results["created"] == 2)
    assert len(await recording.events()) == 2


async def test_one_noisy_object_does_not_silence_another(recording: Recording):
    for number in range(BURST_PER_OBJECT + 20):
        recording.record(f"note {number}", name="noisy")
    recording.record(name="quiet")
    await eventually(lambda: recording.results["created"] == BURST_PER_OBJECT + 1)
    assert recording.results["dropped"] == 20
    assert [e.regarding.name for e in await recording.events()].count("quiet") == 1


async def test_long_notes_and_names_are_made_to_fit(recording: Recording):
    recording.record("ü" * 2000, name="x" * 253)
    (event,) = await eventually(recording.events)
    assert event.note.endswith("…")
    assert len(event.note.encode()) <= 1024


async def test_recording_never_blocks_nor_raises_while_the_server_is_away(recording: Recording):
    for number in range(3000):
        recording.record(f"note {number}", name=f"object-{number}")
    assert recording.results["dropped"] >= 1000  # the queue is bounded; the caller was never held up


async def test_what_was_recorded_is_written_on_stopping(client: Client, namespace: str):
    recording = Recording(client, namespace)
    task = asyncio.create_task(recording.recorder.run())
    await asyncio.sleep(0)
    recording.record("last words")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [event.note for event in await recording.events()] == ["last words"]


def test_shortened_cuts_between_characters():
    assert shortened("abc", 3) == "abc"
    assert shortened("äöü", 5) == "ä…"
