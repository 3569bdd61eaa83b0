"""The loop that all controllers share: which keys are looked at, when again, and what is said how often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, ClassVar, cast

import pytest

from plimsoll.disruption.ledger import DisruptionLedger
from plimsoll.disruption.store import DisruptionStore
from plimsoll.embedded_cluster.clocks import VirtualClock
from plimsoll.kube.cache.store import View
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import Credentials
from plimsoll.kube.client.errors import ApiError, Conflict, NotFound
from plimsoll.kube.client.transport import ApiCall
from plimsoll.kube.events import EventRecorder, NewEvent
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import DEPLOYMENTS, PODS, Key, Resource
from plimsoll.runtime.actuator import Actuator
from plimsoll.runtime.audit import AuditTrail
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.decision import (
    Blocker,
    Decision,
    DisruptionLimits,
    Event,
    Patch,
    Permission,
    Problem,
    Reason,
    Ref,
)
from plimsoll.runtime.expectations import Expectations
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.reconciler import Reconciler
from tests import build
from tests.runtime.test_actuator import SettableLeadership

IDLE = Decision(reason=Reason("Idle", "nothing to do"))


class Scripted:
    """Answers what the test wants, and remembers being asked."""

    name: ClassVar[str] = "scripted"
    watches: ClassVar[tuple[Resource[Any], ...]] = (DEPLOYMENTS, PODS)
    permissions: ClassVar[tuple[Permission, ...]] = ()

    def __init__(self, answer: Callable[[Key], Decision] = lambda _: IDLE) -> None:
        self.answer = answer
        self.asked: list[Key] = []
        self.at_once = 0

    def keys(self, resource: Resource[Any], changed: KubeObject, view: View) -> Iterable[Key]:
        if changed.name == "poison":
            raise RuntimeError("keys went wrong")
        return (Key("Deployment", changed.namespace, changed.labels.get("of", changed.name)),)

    def decide(self, key: Key, view: View, now: datetime) -> Decision:
        self.asked.append(key)
        return self.answer(key)


class Loop:
    def __init__(
        self, controller: Scripted, interval: timedelta = timedelta(hours=1), client: Client | None = None
    ) -> None:
        self.view = View.of({DEPLOYMENTS: [], PODS: []})
        self.leadership, self.expectations, self.metrics = SettableLeadership(), Expectations(), Metrics()
        self.told: list[NewEvent] = []
        client, clock = client or cast("Client", None), VirtualClock()  # where there is none, nothing is written
        recorder = EventRecorder(client, clock, controller="plimsoll.dev/test", instance="here")
        recorder.record = self.told.append  # type: ignore[method-assign, assignment]
        door = Actuator(
            client, self.view, clock, identity="here", leadership=self.leadership,
            ledger=DisruptionLedger(DisruptionLimits(1, 1, timedelta(hours=1))),
            memory=DisruptionStore(client, clock, namespace="default", period=timedelta(hours=1)),
            expectations=self.expectations, recorder=recorder, metrics=self.metrics, audit=AuditTrail(), read_only=False,
        )  # fmt: skip
        self.reconciler = Reconciler(
            controller, self.view, door, clock, leadership=self.leadership, expectations=self.expectations,
            metrics=self.metrics, interval=interval, workers=2,
        )  # fmt: skip
        for resource in controller.watches:
            self.view[resource].listen(self.reconciler.changed)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.reconciler.run())
        try:
            yield
        finally:
            self.reconciler.queue.shut_down()
            await task

    async def quiet(self) -> None:
        while not self.reconciler.queue.idle:
            await asyncio.sleep(0)


pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]  # time passes as fast as nothing happens
WEB = Key("Deployment", "default", "web")


async def test_a_change_of_any_object_leads_to_its_keys():
    controller = Scripted()
    loop = Loop(controller)
    async with loop.running():
        loop.view[PODS].put(build.pod("p1", labels={"of": "web"}))
        loop.view[PODS].put(build.pod("p2", labels={"of": "web"}))
        await loop.quiet()
        assert controller.asked == [WEB]  # two changes, one key, one look
        # Moved from one workload to another: both are concerned.
        loop.view[PODS].put(build.pod("p1", labels={"of": "api"}, uid=loop.view[PODS].get("default", "p1").uid))  # type: ignore[union-attr]
        await loop.quiet()
        assert sorted(key.name for key in controller.asked[1:]) == ["api", "web"]
        loop.view[PODS].remove("default", "p2")
        await loop.quiet()
        assert controller.asked[-1] == WEB


async def test_nothing_is_decided_while_another_leads_and_everything_when_elected():
    controller = Scripted()
    loop = Loop(controller)
    loop.leadership.current = None
    async with loop.running():
        loop.view[DEPLOYMENTS].put(build.deployment("web"))
        await loop.quiet()
        assert controller.asked == []
        loop.leadership.current = "epoch-2"
        loop.reconciler.enqueue_all()
        await loop.quiet()
        assert controller.asked == [WEB]


async def test_nothing_is_decided_on_a_view_that_is_not_live():
    controller = Scripted()
    loop = Loop(controller)
    loop.view[PODS].synced = False
    async with loop.running():
        loop.view[DEPLOYMENTS].put(build.deployment("web"))
        await asyncio.sleep(30)
        assert controller.asked == []
        loop.view[PODS].synced = True
        await asyncio.sleep(5)
        assert controller.asked == [WEB]


async def test_nothing_is_decided_before_the_view_shows_our_own_write():
    controller = Scripted()
    loop = Loop(controller)
    deployment = build.deployment("web", resourceVersion="100")
    loop.expectations.wrote(WEB, Ref.to(DEPLOYMENTS, deployment), "200")
    async with loop.running():
        loop.view[DEPLOYMENTS].put(deployment)
        await asyncio.sleep(30)
        assert controller.asked == []
        loop.view[DEPLOYMENTS].put(build.deployment("web", uid=deployment.uid, resourceVersion="200"))
        await asyncio.sleep(5)
        assert controller.asked == [WEB]


async def test_a_key_is_looked_at_again_when_it_asks_and_after_the_interval():
    controller = Scripted(lambda _: Decision(reason=IDLE.reason, requeue_after=timedelta(minutes=1)))
    loop = Loop(controller)
    async with loop.running():
        loop.view[DEPLOYMENTS].put(build.deployment("web"))
        await asyncio.sleep(600)
        assert 9 <= len(controller.asked) <= 11
        controller.answer = lambda _: IDLE
        await asyncio.sleep(120)
        asked = len(controller.asked)
        await asyncio.sleep(3600)
        assert asked < len(controller.asked) <= asked + 2


async def test_a_key_whose_object_is_gone_is_not_looked_at_for_ever():
    controller = Scripted(lambda _: Decision(reason=IDLE.reason, forget=True))
    loop = Loop(controller)
    async with loop.running():
        loop.view[DEPLOYMENTS].put(build.deployment("web"))
        await asyncio.sleep(5 * 3600)
        assert controller.asked == [WEB]
        loop.view[DEPLOYMENTS].remove("default", "web")  # a change of it still leads to a look
        await loop.quiet()
        assert controller.asked == [WEB, WEB]


async def test_a_decision_that_raises_is_tried_again_later_and_stops_nobody_else():
    def answer(key: Key) -> Decision:
        if key.name == "bad":
            raise RuntimeError("a bug")
        return IDLE

    controller = Scripted(answer)
    loop = Loop(controller)
    async with loop.running():
        for name in ("bad", "good"):
            loop.view[DEPLOYMENTS].put(build.deployment(name))
        await asyncio.sleep(60)
    names = [key.name for key in controller.asked]
    assert names.count("good") == 1
    assert 4 <= names.count("bad") <= 16  # about twice as long between tries each time, not a hot loop
    errors = loop.metrics.registry.get_sample_value
    assert errors("plimsoll_reconcile_errors_total", {"controller": "scripted", "error": "RuntimeError"}) >= 4  # type: ignore[operator]


class Refusing:
    """A way to a server that refuses whatever it is sent."""

    def __init__(self, error: ApiError) -> None:
        self.error = error
        self.calls: list[str] = []

    async def close(self) -> None: ...

    async def send(self, call: ApiCall, timeout_seconds: float) -> bytes:
        self.calls.append(call.what)
        raise self.error

    def stream(self, call: ApiCall, idle_seconds: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise self.error


@pytest.mark.parametrize("error", [Conflict(409, "Conflict", "changed"), NotFound(404, "NotFound", "gone")])
async def test_what_was_overtaken_is_tried_later_each_time_while_the_view_lags_behind(error: ApiError):
    deployment = build.deployment("web", resourceVersion="100")
    patch = Patch(Ref.to(DEPLOYMENTS, deployment), {"metadata": {"labels": {"a": "b"}}}, why=IDLE.reason)
    controller = Scripted(lambda _: Decision(reason=IDLE.reason, actions=(patch,)))
    way = Refusing(error)
    loop = Loop(controller, client=Client(Credentials("http://nowhere"), clock=RealClock(), transport=way))
    async with loop.running():
        loop.view[DEPLOYMENTS].put(deployment)
        await asyncio.sleep(300)  # so far may a watch lag behind
        assert 10 <= len(way.calls) <= 100
        asked = len(controller.asked)
        loop.view[DEPLOYMENTS].put(build.deployment("web", uid=deployment.uid, resourceVersion="200"))
        await asyncio.sleep(0.01)
        assert len(controller.asked) == asked + 1  # what it waited for is there


async def test_an_object_whose_keys_cannot_be_told_stops_nobody_else():
    controller = Scripted()
    loop = Loop(controller)
    async with loop.running():
        loop.view[DEPLOYMENTS].put(build.deployment("poison"))
        loop.view[DEPLOYMENTS].put(build.deployment("web"))
        await loop.quiet()
    assert controller.asked == [WEB]


async def test_a_problem_is_reported_once_per_change_and_not_once_per_look():
    message = "spot-percentage is 70, expected 70%"
    deployment = build.deployment("web")

    def about() -> Ref:  # the object's version moves with every change of its status: that is no news
        return Ref.to(DEPLOYMENTS, build.deployment("web", uid=deployment.uid))

    controller = Scripted(
        lambda _: Decision(reason=IDLE.reason, problems=(Problem(about(), "InvalidAnnotations", message),))
    )
    loop = Loop(controller)
    async with loop.running():
        loop.view[DEPLOYMENTS].put(deployment)
        for _ in range(5):
            await asyncio.sleep(3600)
        assert len(controller.asked) > 5
        assert [(event.reason, event.type, event.note) for event in loop.told] == [
            ("InvalidAnnotations", "Warning", message)
        ]
        message = "spot-percentage is 71, expected 71%"
        await asyncio.sleep(3600)
        assert len(loop.told) == 2
        controller.answer = lambda _: IDLE  # mended …
        await asyncio.sleep(3600)
        message = "spot-percentage is 71, expected 71%"
        controller.answer = lambda _: Decision(
            reason=IDLE.reason, problems=(Problem(about(), "InvalidAnnotations", message),)
        )
        await asyncio.sleep(3600)  # … and made anew
        assert len(loop.told) == 3
    count = loop.metrics.registry.get_sample_value
    assert count("plimsoll_problems_total", {"controller": "scripted", "code": "InvalidAnnotations"}) == 3


async def test_a_note_is_told_once_while_it_stays_the_same():
    about = Ref.to(DEPLOYMENTS, build.deployment("web"))
    controller = Scripted(lambda _: Decision(reason=IDLE.reason, events=(Event(about, "NodeUnlabelled", "n1"),)))
    loop = Loop(controller)
    async with loop.running():
        loop.view[DEPLOYMENTS].put(build.deployment("web"))
        await asyncio.sleep(5 * 3600)
    assert [event.note for event in loop.told] == ["n1"]


async def test_what_blocks_is_counted_while_it_blocks():
    controller = Scripted(lambda _: Decision(reason=IDLE.reason, blockers=(Blocker("Cooldown", "until later"),)))
    loop = Loop(controller)
    value = loop.metrics.registry.get_sample_value
    async with loop.running():
        loop.view[DEPLOYMENTS].put(build.deployment("web"))
        await asyncio.sleep(1)
        assert value("plimsoll_blocked", {"controller": "scripted", "code": "Cooldown"}) == 1
        controller.answer = lambda _: IDLE
        await asyncio.sleep(3600)
        assert value("plimsoll_blocked", {"controller": "scripted", "code": "Cooldown"}) == 0
