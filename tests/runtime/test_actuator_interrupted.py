"""The cluster changes while the actuator works: between its check and its write, or before the reply arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from plimsoll.disruption.entries import KIND
from plimsoll.disruption.ledger import Disruption
from plimsoll.disruption.store import DisruptionStore
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import Ambiguous, ServerError
from plimsoll.kube.shards import LABEL
from plimsoll.kube.types.resources import CONFIGMAPS, PODS, Key
from plimsoll.runtime.decision import Delete, Patch, Ref
from tests.runtime.test_actuator import KEY, WHY, Stage, codes, eviction, words

StartNodes = Callable[[str], list[str]]


@pytest.fixture
def stage(client: Client, namespace: str, tmp_path: Path) -> Stage:
    return Stage(client, namespace, tmp_path / "audit.jsonl")


def afterwards(client: Client, verb: str, happens: Callable[[], None]) -> None:
    """Let something happen each time a call of this sort was answered, before whoever made it goes on."""
    call = getattr(client, verb)

    async def and_then(*args: Any, **kwargs: Any) -> Any:
        answer = await call(*args, **kwargs)
        happens()
        return answer

    setattr(client, verb, and_then)


def end_tenure(stage: Stage) -> Callable[[], None]:
    return lambda: setattr(stage.leadership, "current", None)


def lose_sight(stage: Stage) -> Callable[[], None]:
    return lambda: setattr(stage.view[PODS], "synced", False)


@pytest.mark.parametrize(("event", "code"), [(end_tenure, "NotLeading"), (lose_sight, "ViewStale")])
async def test_nothing_is_deleted_after_the_live_look_if_it_is_no_longer_right(
    stage: Stage, event: Callable[[Stage], Callable[[], None]], code: str
):
    ref = await stage.config_map("kept")
    afterwards(stage.client, "get", event(stage))
    assert codes(await stage.act(Delete(ref, WHY))) == [code]
    assert await stage.data("kept") == {"a": "1"}


@pytest.mark.parametrize("verb", ["get", "create"], ids=["after the look", "after it was written down"])
@pytest.mark.parametrize(("event", "code"), [(end_tenure, "NotLeading"), (lose_sight, "ViewStale")])
async def test_nobody_is_evicted_if_it_is_no_longer_right(
    stage: Stage, kwok_nodes: StartNodes, verb: str, event: Callable[[Stage], Callable[[], None]], code: str
):
    kwok_nodes("1 zone=a")
    (pod, _) = await stage.replicas(2)
    afterwards(stage.client, verb, event(stage))
    assert codes(await stage.act(eviction(pod))) == [code]
    assert await stage.standing(pod)


async def test_nobody_is_evicted_if_another_pod_went_while_it_was_written_down(stage: Stage, kwok_nodes: StartNodes):
    kwok_nodes("1 zone=a")
    (pod, other, _) = await stage.replicas(3)
    afterwards(stage.client, "create", lambda: stage.view[PODS].remove(other.namespace, other.name))
    assert codes(await stage.act(eviction(pod))) == ["OwnerDisrupted"]
    assert await stage.standing(pod)


async def test_what_is_gone_already_is_awaited_in_the_view(stage: Stage, kwok_nodes: StartNodes):
    kwok_nodes("1 zone=a")
    (pod, _) = await stage.replicas(2)
    ref = await stage.config_map("gone")
    await stage.look()
    await stage.client.delete(CONFIGMAPS, stage.namespace, "gone", uid=ref.uid)
    assert words(await stage.act(Delete(ref, WHY))) == ["gone"]
    assert stage.expectations.behind(KEY, stage.view) == ref
    await stage.client.delete(PODS, pod.namespace, pod.name, uid=pod.uid, grace_seconds=0)
    assert words(await stage.act(eviction(pod))) == ["gone"]
    stage.view[CONFIGMAPS].remove(ref.namespace, ref.name)
    assert stage.expectations.behind(KEY, stage.view) == Ref.to(PODS, pod)
    await stage.look()
    assert stage.expectations.behind(KEY, stage.view) is None


async def test_an_eviction_whose_reply_was_lost_counts_and_is_found_out_about(
    stage: Stage, kwok_nodes: StartNodes, monkeypatch: pytest.MonkeyPatch
):
    kwok_nodes("1 zone=a")
    (pod, other, _) = await stage.replicas(3)
    evict = stage.client.evict

    async def unheard(*args: Any, **kwargs: Any) -> None:
        await evict(*args, **kwargs)
        raise Ambiguous("the reply was lost")

    with monkeypatch.context() as broken:
        broken.setattr(stage.client, "evict", unheard)
        outcome = await stage.act(eviction(pod))
    assert words(outcome) == ["done"]
    assert [d.uid for d in stage.ledger.recent(stage.clock.monotonic())] == [pod.uid]
    assert stage.expectations.behind(KEY, stage.view) == Ref.to(PODS, pod)
    assert codes(await stage.act(eviction(other))) == ["OwnerDisrupted"]


async def test_an_eviction_that_may_be_under_way_still_counts_though_its_pod_stands(
    stage: Stage, kwok_nodes: StartNodes, monkeypatch: pytest.MonkeyPatch
):
    kwok_nodes("1 zone=a")
    (pod, other, _) = await stage.replicas(3)

    async def unheard(*_: Any, **__: Any) -> None:
        raise Ambiguous("the reply was lost")

    with monkeypatch.context() as broken:
        broken.setattr(stage.client, "evict", unheard)
        assert words(await stage.act(eviction(pod))) == ["unknown"]
    assert codes(await stage.act(eviction(other))) == ["OwnerDisrupted"]


async def test_an_eviction_that_certainly_failed_holds_nobody_back(
    stage: Stage, kwok_nodes: StartNodes, monkeypatch: pytest.MonkeyPatch
):
    kwok_nodes("1 zone=a")
    (pod, other, _) = await stage.replicas(3)

    async def fails(*_: Any, **__: Any) -> None:
        raise ServerError(500, "InternalError", "a webhook failed")

    with monkeypatch.context() as broken:
        broken.setattr(stage.client, "evict", fails)
        assert words(await stage.act(eviction(pod))) == ["failed"]
    assert words(await stage.act(eviction(other))) == ["done"]


async def test_what_cannot_be_written_down_does_not_happen(stage: Stage, kwok_nodes: StartNodes):
    kwok_nodes("1 zone=a")
    (pod, _) = await stage.replicas(2)
    stage.door._memory = DisruptionStore(stage.client, stage.clock, namespace="nowhere", period=timedelta(hours=1))
    outcome = await stage.act(eviction(pod))
    assert words(outcome) == ["failed"], "and not gone: it is the memory's namespace that is not there"
    assert "nowhere" in outcome.results[0].detail
    assert await stage.standing(pod)


async def test_a_write_under_way_when_the_process_stops_is_in_the_audit_trail(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
):
    ref = await stage.config_map("kept")
    begun = asyncio.Event()

    async def hangs(*_: Any, **__: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(stage.client, "patch", hangs)
    acting = asyncio.create_task(stage.act(Patch(ref, {"data": {"a": "2"}}, WHY)))
    await begun.wait()
    acting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await acting
    (record,) = stage.audited()
    assert (record["action"], record["uid"], record["result"]) == ("Patch", ref.uid, "unknown")


async def test_a_pod_that_never_ran_leaves_whatever_the_limits_say(stage: Stage):
    """Nobody loses anything: no budget is asked, and nothing is written down."""
    # Of a scheduler that is not there: the one that is would say that the pod does not fit, between our look and our act.
    spec = {"containers": [{"name": "main", "image": "web"}], "schedulerName": "nobody"}
    await stage.client.create(PODS, stage.namespace, {"metadata": {"name": "pending"}, "spec": spec})
    await stage.look()
    (pod,) = stage.view[PODS]
    workload = Key("ReplicaSet", pod.namespace, "web")
    for number in range(100):
        stage.ledger.enter(Disruption(workload, "default/x", f"uid-{number}", stage.clock.monotonic()))
    assert words(await stage.act(eviction(pod))) == ["done"]
    assert not await stage.standing(pod)
    assert not (await stage.client.list(CONFIGMAPS, stage.namespace, label_selector=f"{LABEL}={KIND}")).items
