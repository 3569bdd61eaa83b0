"""Crashes, lost replies, stale lists and a cloud that refuses: what must hold, holds at every step, and it ends well."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from plimsoll.controllers.nodegroups.lifecycle.termination import Termination
from plimsoll.controllers.nodegroups.patches import DRAIN_TAINT
from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.controllers.nodegroups.types import NODE_GROUPS
from plimsoll.kube.types.resources import NODES
from plimsoll.runtime.decision import Transaction
from tests.nodegroups.world import World, said

QUICK = {"underutilizationDuration": "20s", "cooldownSeconds": 10}


def settled(world: World, nodes: int) -> None:
    """L1, L4: what is wanted is there, nothing is left over."""
    story = "\n".join(said(world))
    members = world.members()
    assert [member.phase for member in members] == ["Ready"] * nodes, story
    assert len(world.cloud.machines) == len(world.api.objects[NODES]) == nodes, story
    assert all(pod.spec.node_name for pod in world.pods()), story
    for node in world.api.typed(NODES):
        assert not any(taint.key == DRAIN_TAINT for taint in node.spec.taints), story


def up_and_down(world: World) -> None:
    world.group(minNodes=1, scaleDownPolicy=QUICK)
    world.workload("web", 4)
    world.run(40)
    world.scale("web", 1)
    world.run(120, step=2)


@pytest.mark.parametrize("writes", range(1, 54, 3))
def test_a_crash_before_or_after_a_write(writes: int) -> None:
    crashed_at(writes)


@pytest.mark.soak
@pytest.mark.parametrize("writes", range(1, 54))
def test_a_crash_before_or_after_every_write(writes: int) -> None:
    crashed_at(writes)


def crashed_at(writes: int) -> None:
    """Odd: before the write is sent; even: after it is applied and before its reply is read."""
    world = World()
    world.crash_after = writes
    up_and_down(world)
    assert world.crashes == 1
    world.run(60, step=2)
    settled(world, 1)


@pytest.mark.parametrize("lost", range(1, 8))
def test_lost_replies_of_the_provider(lost: int) -> None:
    world = World()
    world.cloud.lost_replies = lost
    up_and_down(world)
    world.run(120)
    settled(world, 1)


def test_lists_that_are_a_minute_old() -> None:
    world = World()
    world.cloud.stale = timedelta(seconds=60)
    up_and_down(world)
    world.run(400)
    settled(world, 1)


def test_nothing_is_removed_while_the_provider_cannot_be_asked() -> None:
    world = World()
    world.group(scaleDownPolicy=QUICK)
    world.workload("web", 4)
    world.run(60)
    world.sees_cloud = False
    world.run(90)
    world.scale("web", 0)
    world.run(300)
    assert len(world.cloud.machines) == 2, "S12"
    world.sees_cloud = True
    world.run(200)
    settled(world, 0)


def test_nothing_is_removed_while_most_nodes_are_not_ready() -> None:
    world = World()
    world.group(maxNodes=8, scaleDownPolicy=QUICK)
    world.workload("web", 12)
    world.run(60)
    assert len(world.cloud.machines) == 6
    names = [node.name for node in world.api.typed(NODES)]
    world.scale("web", 0)
    for name in names[:4]:
        world.unready(name)
    world.run(3000, step=15)
    assert len(world.cloud.machines) == 6
    for name in names:
        world.unready(name, ready=True)
    world.run(300)
    settled(world, 0)


def test_an_empty_list_of_nodes_removes_nothing() -> None:
    world = World()
    world.group(scaleDownPolicy=QUICK)
    world.workload("web", 4)
    world.run(60)
    kept, world.api.objects[NODES] = world.api.objects[NODES], {}
    world.decide_all_without_others()
    assert len(world.cloud.machines) == 2
    world.api.objects[NODES] = kept
    assert [member.phase for member in world.members()] == ["Ready", "Ready"]


def test_a_pod_that_binds_during_the_drain_is_not_lost() -> None:
    world = World()
    world.group(minNodes=1, scaleDownPolicy=QUICK)
    world.workload("web", 4)
    world.run(60)
    world.scale("web", 1)
    for _ in range(200):
        world.tick()
        world.now += timedelta(seconds=1)
        leaving = [member for member in world.members() if member.phase == "Terminating"]
        if leaving and any(taint.key == DRAIN_TAINT for node in world.api.typed(NODES) for taint in node.spec.taints):
            world.bind("web", leaving[0].node_name)
            break
    world.run(200)  # S6 is judged at every step
    settled(world, 1)


def test_a_pod_that_binds_after_the_last_look_at_the_view() -> None:
    """The view shows an empty node; the pod comes while the machine is about to be given back."""
    world = World()
    world.group(scaleDownPolicy=QUICK)
    world.workload("web", 1)
    world.run(40)
    world.scale("web", 0)
    late = 0
    run_transaction = world._converse

    def first_a_pod(conversation: Transaction) -> str:
        nonlocal late
        if isinstance(conversation.start, Termination) and not late:
            late += 1
            world.bind("web", conversation.start.node.node_name)
        return run_transaction(conversation)

    world._converse = first_a_pod  # type: ignore[method-assign]
    world.run(60)  # S6 is judged at every step
    assert late == 1
    (member,) = world.members()
    assert member.phase == "Ready", "it is the only pod of its owner, so the node serves on"


def test_someone_takes_our_taint_away_at_the_last_moment() -> None:
    """The view shows the taint; the node, read live, has lost it: a pod may be on its way there. S6 is judged at every step."""
    world = World()
    world.group(scaleDownPolicy=QUICK, desiredNodes=1)
    world.run(40)
    world.change_group(desiredNodes=0)
    taken = 0
    run_transaction = world._converse

    def first_untaint(conversation: Transaction) -> str:
        nonlocal taken
        if isinstance(conversation.start, Termination) and not taken:
            taken += 1
            world.untaint(conversation.start.node.node_name)
        return run_transaction(conversation)

    world._converse = first_untaint  # type: ignore[method-assign]
    world.run(120)
    assert taken == 1
    assert not world.cloud.machines, "it is tainted again, and goes"


def test_someone_deletes_a_node_that_serves() -> None:
    world = World()
    world.group(minNodes=2)
    world.workload("web", 4)
    world.run(60)
    first = world.members()[0]
    world.mark_deleted(first)
    world.run(120)
    settled(world, 2)
    assert first.uid not in {member.uid for member in world.members()}


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int]]:
    step = st.tuples(
        st.sampled_from(
            [
                "scale",
                "crash",
                "lost",
                "quota",
                "sold out",
                "stale",
                "unreachable",
                "heal",
                "bind",
                "refuse",
                "unready",
                "untaint",
                "delete",
            ]
        ),
        st.integers(0, 9),
    )
    return draw(st.lists(step, min_size=1, max_size=10))


@given(histories())
@example([("scale", 9), ("sold out", 8), ("delete", 2)])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_few_histories(history: list[tuple[str, int]]) -> None:
    live_through(history)


@pytest.mark.soak
@given(histories())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_many_histories(history: list[tuple[str, int]]) -> None:
    live_through(history)


def live_through(history: list[tuple[str, int]]) -> None:
    """S6, S7, S8, S10 and S12 are judged in the world at each step; in the end, without faults, all is as it should be."""
    minute = timedelta(minutes=1)
    world = World(
        NodeGroupSettings(
            unschedulable_pod_grace=timedelta(0), provisioning_timeout=minute, joining_timeout=minute, drain_timeout=minute,
            backoff_base=minute / 2, backoff_cap=minute, unready_timeout=2 * minute,
        )
    )  # fmt: skip
    world.group(minNodes=1, maxNodes=4, scaleDownPolicy=QUICK)
    world.group("other", maxNodes=2, offeringIDs=["large", "small"], scaleDownPolicy=QUICK)
    world.group("fixed", minNodes=1, maxNodes=1, scaleDownPolicy=QUICK)
    world.workload("web", 3)
    world.run(20)
    for what, number in history:
        nodes = [node.name for node in world.api.typed(NODES)]
        match what:
            case "scale":
                world.scale("web", 2 * number)
            case "crash":
                world.crash_after = number + 1
            case "lost":
                world.cloud.lost_replies = number
            case "quota":
                world.cloud.quota = number
            case "sold out":
                world.cloud.sold_out = {"small"} if number % 2 else {"large"}
            case "stale":
                world.cloud.stale = timedelta(seconds=10 * number)
            case "unreachable":
                world.cloud.unreachable = True
            case "heal":
                heal(world)
            case "bind" if nodes:
                world.bind("web", nodes[number % len(nodes)])
            case "refuse":
                world.evictions_refused = {pod.name for pod in world.pods()[:number]}
            case "unready" if nodes:
                world.unready(nodes[number % len(nodes)])
            case "untaint" if nodes:
                world.untaint(nodes[number % len(nodes)])
            case "delete" if world.members():
                world.mark_deleted(world.members()[number % len(world.members())])
        world.run(15 + 5 * number, step=2)
    heal(world)
    for node in world.api.typed(NODES):
        world.unready(node.name, ready=True)
    world.run(800, step=4)
    story = "\n".join(said(world))
    assert all(member.phase == "Ready" for member in world.members()), story
    # What was sold out when a group grew to its maximum is not bought once it is sold again: nodes that serve are not exchanged.
    full = len(world.members()) == sum(group.spec.max_nodes for group in world.api.typed(NODE_GROUPS))
    assert full or all(pod.spec.node_name for pod in world.pods()), story
    assert len(world.cloud.machines) == len(world.members()), story
    written = len(world.log)
    world.run(60)
    assert len(world.log) == written, f"L2: {story}"


def heal(world: World) -> None:
    world.cloud.lost_replies, world.cloud.quota, world.cloud.unreachable = 0, None, False
    world.cloud.sold_out, world.cloud.stale, world.evictions_refused = set(), timedelta(0), set()
