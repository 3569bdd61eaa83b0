"""Fault 18: every node is NotReady, the list of nodes is empty, the server says 403. Then nobody is asked to leave."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from plimsoll.config import DisruptionLimitsConfig
from plimsoll.disruption.entries import KIND
from plimsoll.kube.shards import LABEL
from plimsoll.kube.types.resources import NODES, PODS
from tests.eventually import eventually
from tests.faults import answers, invariants
from tests.faults.faults import Answer, Lens
from tests.faults.invariants import evictions
from tests.faults.rules import on, works
from tests.faults.runs import Run, config
from tests.faults.scene import Scene

HELD_UNREADY = "controlplane.test/ready"


def not_ready(node: dict[str, Any]) -> dict[str, Any]:
    conditions = [c | {"status": "Unknown"} if c["type"] == "Ready" else c for c in node["status"]["conditions"]]
    return node | {"status": node["status"] | {"conditions": conditions}}


def nothing(node: dict[str, Any]) -> None:
    return None


@pytest.mark.parametrize("see", [not_ready, nothing])
async def test_no_node_is_known_to_be_well(scene: Scene, see: Any) -> None:
    """S12: what only adds goes on, what destroys does not."""
    pods = await scene.deploy(leaving=2)
    scene.rules.add(on("get list watch", "nodes"), Lens(see))
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await eventually(lambda: run.metric("plimsoll_blocked", code="NoReadyNode") == 1, "the block is reported")
    await run.rounds(3)
    assert not any(node.ready for node in run.operator.view[NODES])
    assert len(scene.record.works()) == 2, "the ConfigMap, and the mark of the pod that stays"
    assert evictions(scene.record) == []
    await run.stop()
    await scene.history.caught_up()
    assert [pod["metadata"]["uid"] for pod in await scene.pods("web")] == [pod["metadata"]["uid"] for pod in pods]


@pytest.mark.parametrize("kind", ["nodes", "pods", "poddisruptionbudgets"])
async def test_a_kind_is_forbidden(scene: Scene, kind: str) -> None:
    """S12: nothing is done on a part of the truth, and the reason is told to whoever asks for readiness."""
    await scene.deploy(leaving=1)
    refused = scene.rules.add(on("list watch", kind), Answer(answers.forbidden))
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    others = [store for store in run.operator.view.stores() if store.resource.plural != kind]
    await eventually(lambda: refused.struck and all(store.synced for store in others), "the other kinds are live")
    await run.look()
    assert scene.record.of(works) == []
    said = str(run.operator.not_ready())
    assert kind in said
    assert "403" in said
    await run.stop()


async def test_a_kind_is_forbidden_after_a_while(scene: Scene) -> None:
    """S12: rights that are taken away make the view old at once, not when someone notices."""
    pods = await scene.deploy()
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)
    scene.rules.add(on("list watch", "nodes"), Answer(answers.forbidden))
    run.link.drop(on("watch", "nodes"))
    await eventually(lambda: "nodes" in run.operator.view.stale, "the view is known to be old")
    await scene.ask_to_leave(pods[0])
    await eventually(lambda: any(pod.annotations.get("example.plimsoll.dev/leave") for pod in run.operator.view[PODS]))
    await run.look()
    assert evictions(scene.record) == []
    await run.stop()


async def test_evictions_are_forbidden(scene: Scene) -> None:
    """L6: it is tried again at a growing distance; nothing else is tried instead."""
    pods = await scene.deploy(leaving=1)
    scene.rules.add(on("create", "pods/eviction"), Answer(answers.forbidden))
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.record.until(lambda record: len(evictions(record)) >= 3)
    await run.stop()
    assert run.metric("plimsoll_actions_total", action="Evict", result="failed") >= 2
    assert scene.record.of(on("delete deletecollection", "pods")) == []
    assert [pod["metadata"]["uid"] for pod in await scene.pods("web")] == [pod["metadata"]["uid"] for pod in pods]


@pytest.mark.parametrize(("first", "restart"), [("node", False), ("pods", False), ("node", True)])
async def test_pods_lost_with_their_node_count(
    scene: Scene, kwok_nodes: Callable[[str], list[str]], first: str, restart: bool
) -> None:
    """S5: a workload that has just lost three pods with their node is not disrupted further, also once they are back.

    When a node dies, the node lifecycle controller reports it and its pods; which of the two is heard first is a matter of
    chance, because they come over different watches. A process that starts later knows of it from memory.
    """
    (node,) = kwok_nodes("1 zone=b prefix=lost")
    pods = await scene.deploy(node=node)
    limits = DisruptionLimitsConfig(per_workload=3, period=timedelta(hours=1))
    run = await Run.start(scene.proxy, "a", config(scene.namespace, limits=limits))
    await scene.comes_to_rest(run)

    node_path = f"/api/v1/nodes/{node}"
    paths = [scene.path("pods", pod["metadata"]["name"]) for pod in pods]
    for path in [node_path, *paths] if first == "node" else [*paths, node_path]:
        await scene.direct.patch(path, {"metadata": {"annotations": {HELD_UNREADY: "false"}}})
        await eventually(partial(_is_seen, run, scene, path, ready=False), f"{path} is seen to be lost")
    for path in [node_path, *paths]:
        await scene.direct.patch(path, {"metadata": {"annotations": {HELD_UNREADY: None}}})
        await eventually(partial(_is_seen, run, scene, path, ready=True), f"{path} is seen to be back")
    if restart:
        await eventually(lambda: _written_down(scene, len(pods)), "the losses are written down")
        await run.stop()
        run = await Run.start(scene.proxy, "b", config(scene.namespace, limits=limits))

    await scene.ask_to_leave(pods[0])
    await eventually(
        lambda: evictions(scene.record) or run.metric("plimsoll_blocked", code="DisruptionLimit"), "it is decided"
    )
    assert evictions(scene.record) == []
    await run.stop()
    invariants.destructive_acts_name_a_uid(scene.record)


async def _written_down(scene: Scene, pods: int) -> bool:
    listing = await scene.direct.get(scene.path("configmaps"), {"labelSelector": f"{LABEL}={KIND}"})
    return sum(len(shard["data"]) for shard in listing["items"]) == pods


def _is_seen(run: Run, scene: Scene, path: str, *, ready: bool) -> bool:
    """Whether the operator's view shows a node or a pod so."""
    name = path.rpartition("/")[2]
    view = run.operator.view
    found = view[PODS].get(scene.namespace, name) if "/pods/" in path else view[NODES].get("", name)
    return found is not None and found.ready == ready
