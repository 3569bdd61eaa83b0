"""The one door, on a real API server: what it lets through, what it refuses, and what it writes down."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from plimsoll.disruption.entries import KIND
from plimsoll.disruption.ledger import Disruption, DisruptionLedger
from plimsoll.disruption.store import DisruptionStore
from plimsoll.kube.cache.store import View
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import NotFound
from plimsoll.kube.events import EventRecorder, NewEvent
from plimsoll.kube.shards import LABEL
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import BUDGETS, CONFIGMAPS, DEPLOYMENTS, PODS, REPLICASETS, STATEFULSETS, Key
from plimsoll.runtime.actuator import Actuator
from plimsoll.runtime.audit import AuditTrail
from plimsoll.runtime.decision import (
    Action,
    Create,
    Decision,
    Delete,
    DisruptionLimits,
    Event,
    Evict,
    Patch,
    Reason,
    Ref,
)
from plimsoll.runtime.expectations import Expectations
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.outcome import Outcome
from tests.clocks import PushedClock
from tests.eventually import eventually

KEY = Key("Deployment", "default", "web")
WHY = Reason("Test", "because a test says so")


class SettableLeadership:
    def __init__(self) -> None:
        self.current: str | None = "epoch-1"

    def term(self) -> str | None:
        return self.current


class Stage:
    """A door on a real API server, over a view that the test reads when it wants to."""

    def __init__(self, client: Client, namespace: str, audit_file: Path, *, read_only: bool = False) -> None:
        self.client, self.namespace = client, namespace
        self.clock = PushedClock()
        self.leadership = SettableLeadership()
        self.expectations = Expectations()
        self.view = View.of(dict.fromkeys((PODS, BUDGETS, DEPLOYMENTS, REPLICASETS, STATEFULSETS, CONFIGMAPS), ()))
        self.ledger = DisruptionLedger(DisruptionLimits(100, 100, timedelta(hours=1)))
        self.ledger.recall(())
        self.told: list[NewEvent] = []
        recorder = EventRecorder(client, self.clock, controller="plimsoll.dev/test", instance="here")
        recorder.record = self.told.append  # type: ignore[method-assign, assignment]  # events have tests of their own
        self.audit_file = audit_file
        self.metrics = Metrics()
        self.audit = AuditTrail(str(audit_file))
        self.door = Actuator(
            client, self.view, self.clock, identity="here", leadership=self.leadership, ledger=self.ledger,
            memory=DisruptionStore(client, self.clock, namespace=namespace, period=timedelta(hours=1)),
            expectations=self.expectations, recorder=recorder, metrics=self.metrics, audit=self.audit,
            read_only=read_only,
        )  # fmt: skip

    async def look(self) -> None:
        """Bring the view up to date."""
        for store in self.view.stores():
            listing = await self.client.list(store.resource, self.namespace)
            for namespace, name in store.names() - {(o.namespace, o.name) for o in listing.items}:
                store.remove(namespace, name)
            for obj in listing.items:
                store.put(obj)
            store.resource_version = listing.resource_version

    async def act(self, *actions: Action, term: str = "epoch-1", in_order: bool = True) -> Outcome:
        return await self.door.act("test", KEY, Decision(reason=WHY, actions=actions, in_order=in_order), term)

    def audited(self) -> list[dict[str, Any]]:
        assert self.audit.flush(10)
        return [json.loads(line) for line in self.audit_file.read_text().splitlines()]

    async def config_map(self, name: str) -> Ref:
        body = {"metadata": {"name": name}, "data": {"a": "1"}}
        return Ref.to(CONFIGMAPS, await self.client.create(CONFIGMAPS, self.namespace, body))

    async def data(self, name: str) -> dict[str, str]:
        return dict((await self.client.get(CONFIGMAPS, self.namespace, name)).data)

    async def replicas(self, count: int) -> list[Pod]:
        """A ReplicaSet's pods, ready on a KWOK node."""
        labels = {"app": "web"}
        body = {
            "metadata": {"name": "web"},
            "spec": {
                "replicas": count,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": "web"}]},
                },
            },
        }
        await self.client.create(REPLICASETS, self.namespace, body)

        async def ready() -> list[Pod]:
            await self.look()
            pods = [pod for pod in self.view[PODS] if pod.ready]
            return pods if len(pods) == count else []

        found: list[Pod] = await eventually(ready)
        return found

    async def standing(self, pod: Pod) -> bool:
        try:
            live = await self.client.get(PODS, self.namespace, pod.name)
        except NotFound:
            return False
        return live.uid == pod.uid and not live.terminating


@pytest.fixture
def stage(client: Client, namespace: str, tmp_path: Path) -> Stage:
    return Stage(client, namespace, tmp_path / "audit.jsonl")


def words(outcome: Outcome) -> list[str]:
    return [result.status for result in outcome.results]


def codes(outcome: Outcome) -> list[str]:
    return [blocker.code for blocker in outcome.blockers]


def eviction(pod: Pod) -> Evict:
    return Evict(Ref.to(PODS, pod), Key("ReplicaSet", pod.namespace, "web"), WHY)


async def test_read_only_means_read_only(client: Client, namespace: str, tmp_path: Path):
    stage = Stage(client, namespace, tmp_path / "audit.jsonl", read_only=True)
    ref = await stage.config_map("kept")
    outcome = await stage.act(
        Patch(ref, {"data": {"a": "2"}}, WHY, event=Event(ref, "Changed", "changed")),
        Create(CONFIGMAPS, namespace, "new", {"data": {}}, WHY),
        Delete(ref, WHY),
    )
    stage.door.record_event(Event(ref, "Something", "happened"))
    assert words(outcome) == ["would"] * 3
    assert await stage.data("kept") == {"a": "1"}
    with pytest.raises(NotFound):
        await stage.data("new")
    assert stage.told == []
    assert [record["result"] for record in stage.audited()] == ["would"] * 3


async def test_only_the_tenure_in_which_it_was_decided_writes(stage: Stage):
    ref = await stage.config_map("kept")
    stage.leadership.current = "epoch-2"
    assert codes(await stage.act(Patch(ref, {"data": {"a": "2"}}, WHY), term="epoch-1")) == ["NotLeading"]
    stage.leadership.current = None
    assert codes(await stage.act(Delete(ref, WHY), term="epoch-1")) == ["NotLeading"]
    assert await stage.data("kept") == {"a": "1"}


async def test_a_patch_carries_uid_and_version(stage: Stage):
    ref = await stage.config_map("kept")
    assert words(await stage.act(Patch(ref, {"data": {"a": "2"}}, WHY))) == ["done"]
    # The same reference again: someone (we) has written since.
    assert words(await stage.act(Patch(ref, {"data": {"a": "3"}}, WHY))) == ["conflict"]
    assert words(await stage.act(Patch(ref, {"data": {"b": "3"}}, WHY, if_unchanged=False))) == ["done"]
    namesake = Ref(ref.resource, ref.namespace, ref.name, "00000000-0000-0000-0000-000000000000")
    assert words(await stage.act(Patch(namesake, {"data": {"a": "4"}}, WHY, if_unchanged=False))) == ["conflict"]
    assert await stage.data("kept") == {"a": "2", "b": "3"}


async def test_a_json_patch_can_test_before_it_writes(stage: Stage):
    ref = await stage.config_map("kept")
    add = {"op": "add", "path": "/data/b", "value": "2"}
    assert words(await stage.act(Patch(ref, [add], WHY, form="json", if_unchanged=False))) == ["done"]
    wrong = [{"op": "test", "path": "/data/b", "value": "9"}, {"op": "add", "path": "/data/c", "value": "3"}]
    outcome = await stage.act(Patch(ref, wrong, WHY, form="json", if_unchanged=False))
    assert words(outcome) != ["done"]
    assert await stage.data("kept") == {"a": "1", "b": "2"}


@pytest.mark.parametrize("brief", [False, True])
async def test_what_was_written_is_awaited_in_the_view(stage: Stage, brief: bool):
    ref = await stage.config_map("kept")
    await stage.look()
    assert words(await stage.act(Patch(ref, {"data": {"a": "2"}}, WHY, brief=brief))) == ["done"]
    assert await stage.data("kept") == {"a": "2"}
    assert stage.expectations.behind(KEY, stage.view) is not None
    await stage.look()
    assert stage.expectations.behind(KEY, stage.view) is None


async def test_a_creation_done_twice_is_one_object(stage: Stage):
    create = Create(CONFIGMAPS, stage.namespace, "made", {"data": {"a": "1"}}, WHY)
    assert words(await stage.act(create)) == ["done"]
    assert words(await stage.act(create)) == ["conflict"]
    assert await stage.data("made") == {"a": "1"}
    await stage.look()
    assert stage.expectations.behind(KEY, stage.view) is None


async def test_nothing_is_destroyed_while_an_object_of_its_kind_has_no_readable_metadata(stage: Stage):
    ref = await stage.config_map("doomed")
    for resource in (CONFIGMAPS, PODS):
        stage.view[resource].unreadable = 1
        assert codes(await stage.act(Delete(ref, WHY))) == ["UnreadableObjects"]
        stage.view[resource].unreadable = 0
    stage.view[DEPLOYMENTS].unreadable = 1  # no concern of a ConfigMap
    assert words(await stage.act(Delete(ref, WHY))) == ["done"]


async def test_a_deletion_names_a_uid_and_sees_the_object_as_it_was_decided_about(stage: Stage):
    ref = await stage.config_map("doomed")
    assert codes(await stage.act(Delete(Ref(ref.resource, ref.namespace, ref.name, ""), WHY))) == ["NoUid"]
    await stage.client.patch(CONFIGMAPS, stage.namespace, "doomed", {"data": {"a": "2"}})
    assert words(await stage.act(Delete(ref, WHY))) == ["conflict"]
    now = Ref.to(CONFIGMAPS, await stage.client.get(CONFIGMAPS, stage.namespace, "doomed"))
    namesake = Ref(ref.resource, ref.namespace, ref.name, "00000000-0000-0000-0000-000000000000")
    assert words(await stage.act(Delete(namesake, WHY))) == ["gone"]
    assert await stage.data("doomed") == {"a": "2"}
    assert words(await stage.act(Delete(now, WHY))) == ["done"]
    assert words(await stage.act(Delete(now, WHY))) == ["gone"]


async def test_nothing_is_destroyed_on_a_view_that_is_not_live(stage: Stage):
    ref = await stage.config_map("kept")
    stage.view[PODS].synced = False
    outcome = await stage.act(Delete(ref, WHY))
    assert codes(outcome) == ["ViewStale"]
    assert "pods" in outcome.blockers[0].message
    assert await stage.data("kept") == {"a": "1"}


async def test_what_follows_a_refusal_is_not_tried_unless_it_is_independent(stage: Stage):
    ref = await stage.config_map("kept")
    stale = Patch(Ref(ref.resource, ref.namespace, ref.name, ref.uid, "1"), {"data": {"a": "2"}}, WHY)
    good = Patch(ref, {"data": {"b": "2"}}, WHY, if_unchanged=False)
    assert words(await stage.act(stale, good)) == ["conflict"]
    assert await stage.data("kept") == {"a": "1"}
    assert words(await stage.act(stale, good, in_order=False)) == ["conflict", "done"]
    assert await stage.data("kept") == {"a": "1", "b": "2"}


async def test_pods_are_evicted_never_deleted(stage: Stage, kwok_nodes: Callable[[str], list[str]]):
    kwok_nodes("1 zone=a")
    pods = await stage.replicas(2)
    assert codes(await stage.act(Delete(Ref.to(PODS, pods[0]), WHY))) == ["EvictInstead"]
    assert words(await stage.act(eviction(pods[0]))) == ["done"]
    assert not await stage.standing(pods[0])
    assert stage.expectations.behind(KEY, stage.view) == Ref.to(PODS, pods[0])
    # Without a budget, one at a time: the view still shows the first one standing.
    assert codes(await stage.act(eviction(pods[1]))) in (["OwnerDisrupted"], ["LastReady"])
    assert await stage.standing(pods[1])


async def test_an_eviction_is_written_down_before_it_is_sent(stage: Stage, kwok_nodes: Callable[[str], list[str]]):
    kwok_nodes("1 zone=a")
    pods = await stage.replicas(2)
    assert words(await stage.act(eviction(pods[0]))) == ["done"]
    (config_map,) = (await stage.client.list(CONFIGMAPS, stage.namespace, label_selector=f"{LABEL}={KIND}")).items
    assert list(config_map.data) == [pods[0].uid]


async def test_what_another_tenure_has_asked_for_is_learnt_before_anything_is_sent(
    stage: Stage, kwok_nodes: Callable[[str], list[str]]
):
    kwok_nodes("1 zone=a")
    pods = await stage.replicas(3)
    other = DisruptionStore(stage.client, stage.clock, namespace=stage.namespace, period=timedelta(hours=1))
    workload = Key("ReplicaSet", stage.namespace, "web")
    theirs = Disruption(workload, f"{stage.namespace}/{pods[0].name}", pods[0].uid, stage.clock.monotonic())
    await other.remember(theirs)  # and its eviction is on its way
    assert codes(await stage.act(eviction(pods[1]))) == ["AnotherLeader"]
    assert codes(await stage.act(eviction(pods[1]))) == ["OwnerDisrupted"]
    assert await stage.standing(pods[1])
    (config_map,) = (await stage.client.list(CONFIGMAPS, stage.namespace, label_selector=f"{LABEL}={KIND}")).items
    assert list(config_map.data) == [pods[0].uid]


async def test_a_pod_that_changed_since_it_was_decided_about_stays(
    stage: Stage, kwok_nodes: Callable[[str], list[str]]
):
    kwok_nodes("1 zone=a")
    pods = await stage.replicas(2)
    await stage.client.patch(PODS, stage.namespace, pods[0].name, {"metadata": {"annotations": {"keep": "me"}}})
    assert words(await stage.act(eviction(pods[0]))) == ["conflict"]
    assert await stage.standing(pods[0])
    assert stage.expectations.behind(KEY, stage.view) is not None  # and the view must see it first


async def test_the_servers_no_to_an_eviction_is_a_blocker_and_costs_nothing(
    stage: Stage, kwok_nodes: Callable[[str], list[str]]
):
    kwok_nodes("1 zone=a")
    pods = await stage.replicas(2)
    budget = {"metadata": {"name": "all"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}}
    await stage.client.create(BUDGETS, stage.namespace, budget)

    async def counted() -> bool:
        made = await stage.client.get(BUDGETS, stage.namespace, "all")
        return made.status.expected_pods == 2

    await eventually(counted)
    # The view knows of no budget yet: the API server says no, the door reports it and takes its entry back.
    outcome = await stage.act(eviction(pods[0]))
    assert (words(outcome), codes(outcome)) == (["refused"], ["NotEnoughPdb"])
    assert stage.ledger.recent(stage.clock.monotonic()) == ()
    assert await stage.standing(pods[0])
    await stage.look()
    outcome = await stage.act(eviction(pods[0]))  # now our own count says no, without a call
    assert codes(outcome) == ["NotEnoughPdb"]
    assert "all" in outcome.blockers[0].message


async def test_everything_is_told_in_the_audit_trail_and_in_events(stage: Stage):
    ref = await stage.config_map("kept")
    await stage.act(
        Patch(ref, {"data": {"a": "2"}}, WHY, event=Event(ref, "Changed", "a is 2 now")),
        Patch(ref, {"data": {"a": "3"}}, WHY, event=Event(ref, "Changed", "a is 3 now")),
    )
    first, second = stage.audited()
    assert first["operator"] == "here"
    assert first["epoch"] == "epoch-1"
    assert (first["action"], first["target"], first["uid"]) == ("Patch", str(ref.key), ref.uid)
    assert (first["reason"], first["why"], first["result"]) == ("Test", WHY.message, "done")
    assert first["patch"] == {"data": {"a": "2"}}
    assert second["result"] == "conflict"
    assert [(happening.reason, happening.note) for happening in stage.told] == [("Changed", "a is 2 now")]
    sample = stage.metrics.registry.get_sample_value
    labels = {"controller": "test", "action": "Patch"}
    assert sample("plimsoll_actions_total", {**labels, "result": "done"}) == 1
    assert sample("plimsoll_actions_total", {**labels, "result": "conflict"}) == 1


async def test_nothing_is_done_that_cannot_be_audited_where_that_is_wanted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
):
    ref = await stage.config_map("kept")
    monkeypatch.setattr(AuditTrail, "accepting", False)
    assert codes(await stage.act(Delete(ref, WHY))) == ["AuditUnavailable"]
    assert codes(await stage.act(Patch(ref, {"data": {"a": "2"}}, WHY))) == ["AuditUnavailable"]
    assert await stage.data("kept") == {"a": "1"}
