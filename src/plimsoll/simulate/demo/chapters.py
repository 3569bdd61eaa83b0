"""A story that shows what the operator does, chapter by chapter: something happens, and then it must come to a certain end."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from plimsoll.simulate.demo.scene import (
    NAMESPACE,
    Happens,
    all_there,
    ask_for_drives,
    bought_nodes,
    deploy_web,
    does,
    holdings,
    is_split,
    remove_a_container,
    send_burst,
    served,
    workload,
    zones,
)
from plimsoll.simulate.world import World

_HOUR = 3600.0


class Chapter(Struct, frozen=True):
    title: str
    says: str  # what a newcomer needs to know to follow it
    happens: Happens
    ends: Callable[[World], bool]
    ended: Callable[[World], str]  # what came of it, in words
    within_seconds: float = 900.0


def _split(world: World) -> str:
    spot, on_demand = world.witness.split(workload(world))
    return f"{spot} on spot, {on_demand} on-demand"


def _zones(world: World) -> str:
    return ", ".join(f"{count} in zone {zone}" for zone, count in zones(world).items())


def _nodes(world: World) -> str:
    count = len(bought_nodes(world))
    return f"{count} node{'' if count == 1 else 's'}"


def _held(world: World) -> str:
    held = sorted(holdings(world).items())
    return "; ".join(
        f"{name} holds {' and '.join(drives)}, port {port}" if drives else f"{name} waits"
        for name, (drives, port) in held
    )


STORY: tuple[Chapter, ...] = (
    Chapter(
        "Fifteen replicas at once",
        "Spot nodes are cheap, and the cloud may take them back at any time. `web` asks for 60 % of its replicas on spot and at "
        "least 3 on-demand. The operator is asked about each new pod and gives it its class before it starts.",
        deploy_web,
        lambda world: is_split(world, 60),
        lambda world: f"placed as they came, exactly: {_split(world)}; nobody had to move",
    ),
    Chapter(
        "The share falls from 60 % to 20 %",
        "Six replicas are on the wrong side now. They move one at a time: a disruption budget lets only one of them be missing, and "
        "the next one goes when its replacement is ready.",
        does(f"deployment/{NAMESPACE}/web:spotalis.io/spot-percentage=20%@0s"),
        lambda world: is_split(world, 20),
        lambda world: f"moved one by one: {_split(world)}",
        _HOUR,
    ),
    Chapter(
        "And rises to 60 % again",
        "The same way back.",
        does(f"deployment/{NAMESPACE}/web:spotalis.io/spot-percentage=60%@0s"),
        lambda world: is_split(world, 60),
        lambda world: f"moved back: {_split(world)}",
        _HOUR,
    ),
    Chapter(
        "The cloud takes a spot node back",
        "It gives two minutes' notice. What runs on the node is replaced elsewhere before it goes.",
        does("reclaim:node/spot-a-1@0s"),
        lambda world: world.cluster.api.storage.node("spot-a-1") is None and is_split(world, 60),
        lambda world: f"replaced before it went: {_split(world)}",
    ),
    Chapter(
        "Scaled down to 5",
        "Kubernetes decides which replicas go, by an order that the operator keeps up to date: so that share, minimum and zones are "
        "right whatever the size.",
        does(f"deployment/{NAMESPACE}/web:replicas=5@0s"),
        lambda world: is_split(world, 60),
        lambda world: f"right without a single move: {_split(world)}; {_zones(world)}",
    ),
    Chapter(
        "A burst for which there is no node",
        "Six pods of `batch` want nodes of their own, and there are none. The node group `burst` may buy up to four: it buys as "
        "many as it takes, and no more.",
        send_burst,
        lambda world: all_there(world, "batch", 6),
        lambda world: f"{_nodes(world)} bought for six pods",
    ),
    Chapter(
        "The burst is over",
        "Two pods stay. Nodes that nobody needs go after a minute; a node whose pods fit elsewhere is marked, emptied pod by pod, "
        "looked at once more, and only then given back.",
        does(f"deployment/{NAMESPACE}/batch:replicas=2@0s"),
        lambda world: all_there(world, "batch", 2) and len(bought_nodes(world)) == 1,
        lambda world: f"{_nodes(world)} left, and both pods run",
        _HOUR,
    ),
    Chapter(
        "Three storage containers, drives for two",
        "A node has four drives, and three containers ask for two each. A drive must never belong to two of them, whatever fails "
        "in between; so each gets its drives and ports in two steps, under a lock.",
        ask_for_drives,
        lambda world: len(served(world)) == 2,
        _held,
    ),
    Chapter(
        "One of them goes",
        "Its drives are free again, and the one that waited gets them.",
        remove_a_container,
        lambda world: len(served(world)) == 2,
        _held,
    ),
)
