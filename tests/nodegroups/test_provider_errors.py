"""A group whose provider cannot be used says so at once, in the provider's own words."""

from __future__ import annotations

from datetime import timedelta

from plimsoll.controllers.nodegroups.controller import CLUSTER, GroupsDecision
from plimsoll.controllers.nodegroups.provider_inventory import ERROR_HOLD
from plimsoll.controllers.nodegroups.types import NODE_GROUPS, find_condition
from plimsoll.explain.nodegroups import explain_group
from tests.nodegroups.world import World

WORDS = "401: client secret has expired"


def decided(world: World) -> GroupsDecision:
    decision = world.decide(CLUSTER)
    assert isinstance(decision, GroupsDecision)
    return decision


def failing() -> World:
    world = World()
    world.group()
    world.sees_cloud = False
    world.inventories.record_error("cloud", WORDS, world.now)
    return world


def test_condition_event_metric_and_explanation() -> None:
    world = failing()
    decision = decided(world)
    condition = find_condition(world.the_group(), "Error")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "ProviderFailed")
    assert WORDS in condition.message
    assert [(one.code, WORDS in one.message) for one in decision.problems] == [("ProviderFailed", True)]
    gauges = {one.name: one.value for one in decision.gauges if one.name.endswith("provider_error")}
    assert gauges == {"vpsie_autoscaler_nodegroup_provider_error": 1}
    world.restart()  # like `explain`, which polls no provider
    found = explain_group(NODE_GROUPS.key(world.the_group()), world.api.view(), world.now, world.controller)
    assert any(WORDS in text for text in found.errors)
    assert "ProviderUnknown" not in {one.code for one in found.blockers}


def test_it_is_over_when_the_provider_works_again_and_does_not_flap_meanwhile() -> None:
    world = failing()
    decided(world)
    written = world.the_group().metadata.resource_version
    for _ in range(20):  # it answers every other time
        world.now += timedelta(seconds=10)
        world.inventories.record("cloud", world.cloud.listing(world.now))
        decided(world)
        world.inventories.record_error("cloud", WORDS, world.now)
        decided(world)
    assert world.the_group().metadata.resource_version == written, "nothing was written meanwhile"
    world.inventories.record("cloud", world.cloud.listing(world.now))
    world.now += ERROR_HOLD + timedelta(seconds=1)
    decided(world)
    condition = find_condition(world.the_group(), "Error")
    assert condition is not None
    assert condition.status == "False"
