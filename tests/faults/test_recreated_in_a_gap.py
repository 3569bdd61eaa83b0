"""Fault 10: while a watch is broken, an object comes and goes, or goes and comes back as another under the same name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from plimsoll.kube.types.resources import DEPLOYMENTS
from tests.eventually import eventually
from tests.faults import answers, invariants
from tests.faults.example import KEEP, kept_name
from tests.faults.faults import Answer
from tests.faults.invariants import evictions
from tests.faults.rules import on
from tests.faults.runs import Run, config
from tests.faults.scene import Scene


@asynccontextmanager
async def gap(scene: Scene, run: Run, kind: str, *, history_expires: bool = False) -> AsyncIterator[None]:
    """The watch of a kind is broken until the end of the block.

    history_expires: the server has no history of the gap afterwards, so that the operator lists again and sees only its end.
    Otherwise the watch replays the gap, and the operator may decide between any two of its events.
    """
    closed = scene.rules.add(on("watch", kind), Answer(answers.unavailable))
    run.link.drop(on("watch", kind))
    await eventually(lambda: closed.struck > 0, "the watch is being tried again")
    yield
    expired = scene.rules.add(on("watch", kind), Answer(answers.expired), times=1) if history_expires else None
    scene.rules.drop(closed)
    if expired is not None:
        await eventually(lambda: expired.struck and not run.operator.view.stale, "the kind is listed again")


async def test_a_pod_that_was_to_leave_is_another_by_now(scene: Scene) -> None:
    """S8: the view shows a pod that is to leave; under its name runs another that is not."""
    pods = await scene.deploy(kind="StatefulSet")
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)
    held = scene.rules.add(on("get", "pods"), Answer(answers.unavailable))
    await scene.ask_to_leave(pods[0])
    await scene.record.until(lambda record: len(record.of(on("get", "pods"))) > 0)  # decided, and about to look
    async with gap(scene, run, "pods"):
        await scene.direct.delete(scene.path("pods", pods[0]["metadata"]["name"]))
        await eventually(scene.all_ready, "the namesake is ready")
        scene.rules.drop(held)
        for _ in range(3):
            await run.look()
        assert evictions(scene.record) == []
    await scene.comes_to_rest(run)
    await run.stop()
    assert evictions(scene.record) == []
    invariants.all_of(scene)


async def test_a_workload_is_deleted_and_made_anew(scene: Scene) -> None:
    """L1: the ConfigMap of the old one goes, the new one gets its own."""
    await scene.deploy(replicas=2)
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)
    before = await scene.find("configmaps", kept_name("web"))
    async with gap(scene, run, "deployments"):
        await scene.direct.delete(scene.path("apps/v1/deployments", "web"))
        await eventually(lambda: _no_pods(scene), "its pods are gone")
        await scene.deploy(replicas=2)
    await scene.comes_to_rest(run)
    after = await scene.find("configmaps", kept_name("web"))
    assert before is not None
    assert after is not None
    assert before["metadata"]["uid"] != after["metadata"]["uid"]
    await run.stop()
    invariants.destructive_acts_name_a_uid(scene.record)


async def test_a_config_map_that_was_to_go_is_another_by_now(scene: Scene) -> None:
    """S8: the ConfigMap is ours to delete; the one that now has its name is a person's."""
    await scene.deploy(replicas=1)
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)
    name = kept_name("web")
    async with gap(scene, run, "configmaps"):
        await scene.direct.delete(scene.path("configmaps", name))
        body = {"metadata": {"name": name}, "data": {"of": "a person"}}
        made = await scene.direct.create(scene.path("configmaps"), body)
        await scene.let_go()
        await eventually(
            lambda: scene.record.of(on("get", "configmaps", name=name)), "it is looked at before it is deleted"
        )
        await run.look()
    await eventually(lambda: not run.operator.view.stale)
    await run.rounds(2)
    await run.stop()
    there = await scene.find("configmaps", name)
    assert there is not None
    assert there["metadata"]["uid"] == made["metadata"]["uid"]
    invariants.destructive_acts_name_a_uid(scene.record)


async def test_a_workload_comes_and_goes_in_the_gap(scene: Scene) -> None:
    """Whether it is never heard of or, as the watch goes on where it broke, only afterwards: nothing is left of it."""
    await scene.deploy()
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)
    async with gap(scene, run, "deployments"):
        await scene.deploy("brief", replicas=1)
        await scene.direct.delete(scene.path("apps/v1/deployments", "brief"))
        await eventually(lambda: _no_pods(scene, "brief"), "its pods are gone")
    await scene.annotate("apps/v1/deployments", "web", {"after": "the gap"})
    await eventually(lambda: _is_after_the_gap(scene, run), "what happened in the gap is known")
    await scene.comes_to_rest(run)
    await run.stop()
    assert await scene.find("configmaps", kept_name("brief")) is None
    invariants.all_of(scene)


async def test_kept_let_go_and_kept_again_in_the_gap(scene: Scene) -> None:
    await scene.deploy(replicas=1)
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)
    mark = len(scene.record)
    async with gap(scene, run, "deployments", history_expires=True):
        await scene.let_go()
        await scene.annotate("apps/v1/deployments", "web", {KEEP: "true", "after": "the gap"})
    await eventually(lambda: _is_after_the_gap(scene, run), "what happened in the gap is known")
    await scene.comes_to_rest(run)
    await run.stop()
    assert scene.record.works(since=mark) == [], "in the end nothing had changed"


async def _no_pods(scene: Scene, name: str = "web") -> bool:
    return await scene.pods(name) == []


def _is_after_the_gap(scene: Scene, run: Run) -> bool:
    web = run.operator.view[DEPLOYMENTS].get(scene.namespace, "web")
    return web is not None and "after" in web.metadata.annotations
