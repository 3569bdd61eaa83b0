"""The chapters of the demo: in each one something changes, and the cluster must come to an expected end."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from plimsoll.simulate.demo.scene import (
    NAMESPACE,
    ChapterAction,
    all_ready,
    allocated_containers,
    allocations,
    apply_changes,
    create_containers,
    delete_container,
    deploy_burst,
    deploy_web,
    group_nodes,
    is_split,
    workload,
    zones,
)
from plimsoll.simulate.world import World

_HOUR = 3600.0


class Chapter(Struct, frozen=True):
    """One step of the demo; is_done: whether the expected end is reached."""

    title: str
    explanation: str  # for a reader who sees the operator for the first time
    action: ChapterAction
    is_done: Callable[[World], bool]
    result_text: Callable[[World], str]
    within_seconds: float = 900.0


def _split(world: World) -> str:
    spot, on_demand = world.invariants.split(workload(world))
    return f"{spot} on spot, {on_demand} on-demand"


def _zones(world: World) -> str:
    return ", ".join(f"{count} in zone {zone}" for zone, count in zones(world).items())


def _nodes(world: World) -> str:
    count = len(group_nodes(world))
    return f"{count} node{'' if count == 1 else 's'}"


def _allocations(world: World) -> str:
    return "; ".join(
        f"{name} has {' and '.join(drives)}, port {port}" if drives else f"{name} waits"
        for name, (drives, port) in sorted(allocations(world).items())
    )


CHAPTERS: tuple[Chapter, ...] = (
    Chapter(
        "Fifteen replicas at once",
        "Spot nodes are cheap, but the cloud may reclaim them at any time. `web` wants 60 % of its replicas on spot and at least 3 "
        "on-demand. The operator's webhook assigns each new pod a capacity class before it is scheduled.",
        deploy_web,
        lambda world: is_split(world, 60),
        lambda world: f"placed exactly at creation: {_split(world)}; no pod had to move",
    ),
    Chapter(
        "The share falls from 60 % to 20 %",
        "Six replicas now run on the wrong capacity class. They move one at a time: a PodDisruptionBudget allows one unavailable pod, "
        "and the next pod moves when the replacement is ready.",
        apply_changes(f"deployment/{NAMESPACE}/web:spotalis.io/spot-percentage=20%@0s"),
        lambda world: is_split(world, 20),
        lambda world: f"moved one by one: {_split(world)}",
        _HOUR,
    ),
    Chapter(
        "And rises to 60 % again",
        "The same moves in the other direction.",
        apply_changes(f"deployment/{NAMESPACE}/web:spotalis.io/spot-percentage=60%@0s"),
        lambda world: is_split(world, 60),
        lambda world: f"moved back: {_split(world)}",
        _HOUR,
    ),
    Chapter(
        "The cloud reclaims a spot node",
        "It gives two minutes' notice. The operator replaces the node's pods elsewhere before the node terminates.",
        apply_changes("reclaim:node/spot-a-1@0s"),
        lambda world: world.cluster.api.storage.node("spot-a-1") is None and is_split(world, 60),
        lambda world: f"replaced before the node terminated: {_split(world)}",
    ),
    Chapter(
        "Scaled down to 5",
        "Kubernetes chooses which replicas to delete by their deletion cost. The operator keeps that order up to date, so that share, "
        "minimum and zones are right at every size.",
        apply_changes(f"deployment/{NAMESPACE}/web:replicas=5@0s"),
        lambda world: is_split(world, 60),
        lambda world: f"right without a single move: {_split(world)}; {_zones(world)}",
    ),
    Chapter(
        "A burst without nodes",
        "Six pods of `batch` need nodes of their own, and there are none. The node group `burst` may have up to four nodes; the "
        "operator orders as many as the pods need, and no more.",
        deploy_burst,
        lambda world: all_ready(world, "batch", 6),
        lambda world: f"{_nodes(world)} ordered for six pods",
    ),
    Chapter(
        "The burst is over",
        "Two pods remain. Empty nodes go after a minute. A node whose pods fit elsewhere is tainted, drained pod by pod, checked once "
        "more, and only then deleted.",
        apply_changes(f"deployment/{NAMESPACE}/batch:replicas=2@0s"),
        lambda world: all_ready(world, "batch", 2) and len(group_nodes(world)) == 1,
        lambda world: f"{_nodes(world)} left; both pods run",
        _HOUR,
    ),
    Chapter(
        "Three storage containers, drives for two",
        "A node has four drives, and three containers want two each. No drive may ever be allocated twice, whatever fails in "
        "between. The operator therefore allocates drives and ports in two steps, under a lease.",
        create_containers,
        lambda world: len(allocated_containers(world)) == 2,
        _allocations,
    ),
    Chapter(
        "One container is deleted",
        "Its drives become free, and the waiting container gets them.",
        delete_container,
        lambda world: len(allocated_containers(world)) == 2,
        _allocations,
    ),
)
