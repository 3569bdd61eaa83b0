"""Fault 8: the history is gone, inside a watch or between two pages of a list; bookmarks stay out. The view never goes back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from plimsoll.kube.cache.reflector import Reflector
from plimsoll.kube.cache.store import Store
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import load_credentials
from plimsoll.kube.types.core import ConfigMap
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import CONFIGMAPS, Resource
from plimsoll.runtime.clock import RealClock
from tests.clocks import HurriedClock
from tests.eventually import eventually
from tests.faults import answers, invariants
from tests.faults.faults import Answer, DropBookmarks, EndWatch, Fault
from tests.faults.invariants import NeverBackwards
from tests.faults.rules import next_page, on
from tests.faults.runs import Run, config
from tests.faults.scene import Scene

KINDS = ("pods", "configmaps", "deployments", "replicasets", "nodes", "statefulsets", "poddisruptionbudgets")


@pytest.mark.parametrize(
    "fault",
    [EndWatch("expired", passing=1), EndWatch("expired"), Answer(answers.expired)],
    ids=["inside", "first", "410"],
)
async def test_watches_expire_again_and_again(scene: Scene, fault: Fault) -> None:
    await scene.deploy(leaving=2)
    for kind in KINDS:
        scene.rules.add(on("watch", kind), fault, times=2)
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    watched = NeverBackwards(run.operator.view)
    await scene.comes_to_rest(run)
    await scene.let_go()
    await scene.comes_to_rest(run)
    await run.stop()
    assert watched.violations == []
    invariants.all_of(scene)


@pytest.mark.parametrize("how", ["closed", "reset", "torn"])
async def test_watches_break_without_bookmarks(scene: Scene, how: Any) -> None:
    """Each goes on from the last event that it has seen, not from a bookmark that never came."""
    await scene.deploy(leaving=2)
    for kind in KINDS:
        scene.rules.add(on("watch", kind), DropBookmarks())
        scene.rules.add(on("watch", kind), EndWatch(how, passing=1), times=2)
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    watched = NeverBackwards(run.operator.view)
    await scene.comes_to_rest(run)
    await scene.let_go()
    await scene.comes_to_rest(run)
    await run.stop()
    assert watched.violations == []
    invariants.all_of(scene)


@pytest.mark.parametrize("times", [1, 2])
async def test_a_list_expires_between_two_pages(scene: Scene, times: int) -> None:
    """S11, S12: half a list removes nothing, and the token that leads astray is not followed."""
    for number in range(7):
        body = {"metadata": {"name": f"m-{number}"}, "data": {"n": str(number)}}
        await scene.direct.create(scene.path("configmaps"), body)
    link = await scene.proxy.link("a")
    store: Store[ConfigMap] = Store(CONFIGMAPS)
    removed: list[str] = []

    def gone(_: Resource[Any], before: KubeObject | None, after: KubeObject | None) -> None:
        if before is not None and after is None:
            removed.append(before.name)

    async with Client(load_credentials(link.kubeconfig, None), clock=RealClock(), timeout_seconds=240) as client:
        reflector = Reflector(client, store, HurriedClock(), namespace=scene.namespace, page_size=2)
        running = asyncio.create_task(reflector.run())
        await eventually(lambda: store.synced)
        store.listen(gone)

        expired = scene.rules.add(next_page("configmaps"), Answer(answers.expired_page), times=times)
        scene.rules.add(on("watch", "configmaps"), EndWatch("expired"), times=1)
        link.drop(on("watch", "configmaps"))
        await scene.direct.delete(scene.path("configmaps", "m-6"))
        await eventually(lambda: store.synced and store.get(scene.namespace, "m-6") is None, "listed anew")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert expired.struck >= 1
    assert removed == ["m-6"]
    offered = [one for one in scene.record.of(next_page("configmaps")) if _leads_astray(one.call.params["continue"])]
    assert offered == []


async def test_a_relist_finds_what_was_deleted_in_the_gap(scene: Scene) -> None:
    """The deletion is never told as an event: only a list shows, by not naming it, that the ConfigMap is gone."""
    await scene.deploy()
    run = await Run.start(scene.proxy, "a", config(scene.namespace))
    await scene.comes_to_rest(run)
    closed = scene.rules.add(on("watch", "configmaps"), Answer(answers.unavailable))
    run.link.drop(on("watch", "configmaps"))
    await eventually(lambda: closed.struck > 0)
    await scene.direct.delete(scene.path("configmaps", "web-kept"))
    scene.rules.drop(closed)
    scene.rules.add(on("watch", "configmaps"), EndWatch("expired"), times=1)
    await scene.comes_to_rest(run)
    await run.stop()
    invariants.all_of(scene)


def _leads_astray(token: str) -> bool:
    return token == answers.astray(token)
