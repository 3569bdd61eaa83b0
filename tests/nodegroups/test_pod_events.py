"""A pending pod says which group grows for it, or why none does."""

from __future__ import annotations

from datetime import timedelta

from plimsoll.controllers.nodegroups.controller import CLUSTER
from plimsoll.controllers.nodegroups.scale_up.pod_events import MAX_PER_MINUTE, REPEAT_AFTER
from plimsoll.runtime.decision import Event
from tests.nodegroups.world import World


def pod_events(world: World) -> list[Event]:
    decision = world.controller.decide(CLUSTER, world.api.view(), world.now)
    return [one for one in decision.events if one.regarding.resource.kind == "Pod"]


def pending(world: World, **pod: str) -> None:
    world.scheduler_rests = True
    world.workload("web", 1, **pod)
    world._replicas()
    world._schedule()
    world.inventories.record("cloud", world.cloud.listing(world.now))


def test_the_group_that_grows_is_named() -> None:
    world = World()
    world.group()
    pending(world)
    (event,) = pod_events(world)
    assert (event.reason, event.regarding.name) == ("TriggeredScaleUp", world.pods()[0].name)
    assert event.message == "group default/workers adds 1 nodes: 1 pending pods fit on no existing node"


def test_why_no_group_helps_and_only_now_and_then() -> None:
    world = World()
    world.group()
    pending(world, cpu="64")
    (event,) = pod_events(world)
    assert event.reason == "NotTriggerScaleUp"
    assert "default/workers" in event.message
    world.change_group(maxNodes=0)  # now for another reason
    (again,) = pod_events(world)
    assert again.message == event.message, "the same text records no new event"
    world.now += REPEAT_AFTER
    world.inventories.record("cloud", world.cloud.listing(world.now))
    (later,) = pod_events(world)
    assert later.message != event.message


def test_thousands_of_pods_are_not_thousands_of_events() -> None:
    world = World()
    world.group()
    world.scheduler_rests = True
    world.workload("web", MAX_PER_MINUTE + 40, cpu="64")
    pending_now = world
    pending_now._replicas()
    pending_now._schedule()
    world.inventories.record("cloud", world.cloud.listing(world.now))
    assert len(pod_events(world)) == MAX_PER_MINUTE
    assert len(pod_events(world)) == MAX_PER_MINUTE
    world.now += timedelta(minutes=1)
    world.inventories.record("cloud", world.cloud.listing(world.now))
    assert len(pod_events(world)) == MAX_PER_MINUTE + 40
