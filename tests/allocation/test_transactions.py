"""Writes of a transaction pass the actuator like all others: read-only mode, leadership, audit, metrics, events, expectations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import load_credentials
from plimsoll.kube.types.core import ConfigMap
from plimsoll.kube.types.resources import CONFIGMAPS, Resource
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.decision import Blocker, Create, Event, Patch, Ref, Transaction
from plimsoll.runtime.transaction import (
    ConcurrentWrites,
    End,
    Found,
    Get,
    ListAll,
    Listed,
    ReadFailed,
    TransactionReply,
    TransactionRequest,
    TransactionStarted,
    WritesDone,
)
from tests.runtime.test_actuator import KEY, WHY, Stage
from tools.controlplane.cluster import ControlPlane


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(load_credentials(control_plane.kubeconfig, None), clock=RealClock(), qps=500, burst=500) as made:
        yield made


@pytest.fixture
async def door(client: Client, namespace: str, tmp_path: Path) -> Stage:
    return Stage(client, namespace, tmp_path / "audit.jsonl")


class Script:
    """Says what it was told to, whatever the replies are, and keeps them."""

    def __init__(self, stage: Stage, *requests: TransactionRequest) -> None:
        self.requests = [*requests, End("done", "all was said")]
        self.replies: list[TransactionReply] = []
        self.ended: list[Any] = []
        target = Ref(CONFIGMAPS, stage.namespace, "talk", "")
        self.action = Transaction(target, 0, self.step, WHY, ended=self.ended.append)

    def step(self, state: int, reply: TransactionReply) -> tuple[int, TransactionRequest]:
        self.replies.append(reply)
        return state + 1, self.requests[state]


async def test_replies_come_as_they_were_asked_for(door: Stage) -> None:
    ref = await door.config_map("kept")
    event = Event(ref, "Changed", "b is 2 now")
    script = Script(
        door,
        Get(CONFIGMAPS, door.namespace, "kept"),
        Get(CONFIGMAPS, door.namespace, "nowhere"),
        ListAll(CONFIGMAPS, door.namespace),
        ConcurrentWrites(
            (Patch(ref, {"data": {"b": "2"}}, WHY, event=event), Create(CONFIGMAPS, door.namespace, "made", {}, WHY))
        ),
        ConcurrentWrites((Patch(ref, {"data": {"b": "3"}}, WHY),)),
    )
    outcome = await door.act(script.action)
    assert [result.status for result in outcome.results] == ["done"]
    assert outcome.results[0].detail == "all was said"
    opened, found, missing, listed, first, second = script.replies
    assert isinstance(opened, TransactionStarted)
    assert opened.token
    assert isinstance(found, Found)
    assert isinstance(found.item, ConfigMap)
    assert found.item.uid == ref.uid
    assert isinstance(missing, Found)
    assert missing.item is None
    assert isinstance(listed, Listed)
    assert "kept" in {item.name for item in listed.items}
    assert isinstance(first, WritesDone)
    assert [answer.status for answer in first.answers] == ["done", "done"]
    assert first.answers[0].item is not None
    assert first.answers[0].item.metadata.resource_version != ref.resource_version
    assert isinstance(second, WritesDone)
    assert [answer.status for answer in second.answers] == ["conflict"]
    assert script.ended == [6]
    audited = [(one["action"], one["result"]) for one in door.audited()]
    assert sorted(audited) == [("Create", "done"), ("Patch", "conflict"), ("Patch", "done"), ("Transaction", "done")]
    sample = door.metrics.registry.get_sample_value
    assert sample("plimsoll_actions_total", {"controller": "test", "action": "Patch", "result": "done"}) == 1
    assert [told.note for told in door.told] == ["b is 2 now"]
    assert door.expectations.behind(KEY, door.view) is not None, "the view must show it first"


async def test_read_only_says_not_a_word(client: Client, namespace: str, tmp_path: Path) -> None:
    door = Stage(client, namespace, tmp_path / "audit.jsonl", read_only=True)
    script = Script(door, Get(CONFIGMAPS, namespace, "kept"))
    assert [result.status for result in (await door.act(script.action)).results] == ["would"]
    assert script.replies == []


async def test_session_that_ends_in_mid_transaction_writes_no_more(door: Stage) -> None:
    ref = await door.config_map("kept")
    script = Script(door, ConcurrentWrites((Patch(ref, {"data": {"b": "2"}}, WHY),)))

    def lose(state: int, reply: TransactionReply) -> tuple[int, TransactionRequest]:
        door.leadership.current = "epoch-2"
        return script.step(state, reply)

    await door.act(Transaction(script.action.target, 0, lose, WHY, ended=script.ended.append))
    answered = script.replies[1]
    assert isinstance(answered, WritesDone)
    assert [answer.status for answer in answered.answers] == ["refused"]
    assert await door.data("kept") == {"a": "1"}


async def test_reads_that_fail_are_replies_too(door: Stage) -> None:
    unknown: Resource[ConfigMap] = Resource("no.such.group", "v1", "things", "Thing", ConfigMap)
    script = Script(door, ListAll(unknown, door.namespace))
    await door.act(script.action)
    assert isinstance(script.replies[1], ReadFailed)


async def test_how_it_ended_is_what_is_told(door: Stage) -> None:
    ref = await door.config_map("kept")
    script = Script(door)
    blocker = Blocker("LeaseHeld", "by another")
    script.requests = [End("refused", "not now", blocker, (Event(ref, "Short", "too few", "Warning"),))]
    outcome = await door.act(script.action)
    assert outcome.blockers == (blocker,)
    assert [(told.reason, told.type) for told in door.told] == [("Short", "Warning")]


async def test_a_transaction_that_fails_is_ended_all_the_same(door: Stage) -> None:
    ended: list[Any] = []

    def broken(state: int, reply: TransactionReply) -> tuple[int, TransactionRequest]:
        if state == 1:
            raise RuntimeError("a bug in the step function")
        return state + 1, Get(CONFIGMAPS, door.namespace, "kept")

    target = Ref(CONFIGMAPS, door.namespace, "talk", "")
    with pytest.raises(RuntimeError, match="a bug"):
        await door.act(Transaction(target, 0, broken, WHY, ended=ended.append))
    assert ended == [1]
