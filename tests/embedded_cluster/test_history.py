"""What a client meets whose past is too far away: expired watches and lists; and what the real server cannot be made to do on call."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import pytest

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from plimsoll.kube.cache.reflector import Reflector
from plimsoll.kube.cache.store import Store
from plimsoll.kube.client.errors import Gone
from plimsoll.kube.types.resources import CONFIGMAPS, PODS
from tests.embedded_cluster.scene import A_WHILE, ask, client, cluster, deployment, patch, pods, virtually


async def _fill(made: EmbeddedCluster, count: int) -> None:
    for number in range(count):
        await made.create(kinds.CONFIGMAPS, {"metadata": {"name": f"map-{number}"}})


@virtually
async def test_a_watch_from_before_the_history_is_refused() -> None:
    async with cluster(history=10) as made:
        first = await made.create(kinds.CONFIGMAPS, {"metadata": {"name": "first"}})
        await _fill(made, 20)
        version = first["metadata"]["resourceVersion"]
        answer = await ask(made, "GET", "/api/v1/configmaps", watch="true", resourceVersion=version)
        assert answer.status == 410
        assert answer.body is not None
        assert answer.body["reason"] == "Expired"
        assert answer.body["message"].startswith(f"too old resource version: {version} (")
        newer = made.api.storage.collection(kinds.CONFIGMAPS).forgotten
        answer = await ask(made, "GET", "/api/v1/configmaps", watch="true", resourceVersion=str(newer))
        assert answer.watch is not None
        async with aclosing(answer.watch.chunks()) as chunks:  # type: ignore[type-var]
            lines = (await anext(chunks)).splitlines()
        assert len(lines) == 10, "everything that is still known"


@virtually
async def test_a_continue_token_expires() -> None:
    async with cluster() as made, client(made) as our_client:
        await _fill(made, 5)
        answer = await ask(made, "GET", "/api/v1/configmaps", limit="2")
        assert answer.body is not None
        token = answer.body["metadata"]["continue"]
        made.api.lists.forget()
        expired = await ask(made, "GET", "/api/v1/configmaps", limit="2", **{"continue": token})
        assert expired.status == 410
        assert expired.body is not None
        assert expired.body["reason"] == "Expired"
        assert len((await our_client.list(CONFIGMAPS)).items) == 5


@virtually
async def test_watches_end_in_time_and_say_how_far_they_came() -> None:
    async with cluster() as made:
        answer = await ask(
            made, "GET", "/api/v1/configmaps", watch="true", allowWatchBookmarks="true", timeoutSeconds="150",
            resourceVersion=str(made.api.storage.revision),
        )  # fmt: skip
        assert answer.watch is not None
        await made.create(kinds.SECRETS, {"metadata": {"name": "other"}})
        started = made.clock.monotonic()
        lines = [line async for chunk in answer.watch.chunks() for line in chunk.splitlines()]
        assert made.clock.monotonic() - started == pytest.approx(150)
        events = [json.loads(line) for line in lines]
        assert [event["type"] for event in events] == ["BOOKMARK"] * 3
        assert int(events[-1]["object"]["metadata"]["resourceVersion"]) == made.api.storage.revision


@virtually
async def test_a_reflector_keeps_up_with_the_cluster() -> None:
    """The operator's own eyes, without a socket, over an hour in which its watches end and begin again."""
    async with cluster("3 zone=a", history=50) as made, client(made) as our_client:
        store = Store(PODS)
        reflector = Reflector(our_client, store, made.clock)
        following = asyncio.create_task(reflector.run())
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=5))
        for replicas in (3, 8, 2, 6) * 3:
            await patch(made, kinds.DEPLOYMENTS, "web", {"spec": {"replicas": replicas}})
            await asyncio.sleep(300)
            assert {pod.uid for pod in store} == {pod["metadata"]["uid"] for pod in pods(made)}
            assert store.synced
        assert reflector.relists.total() == 1, "nothing was lost on the way"
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


@virtually
async def test_typed_refusals() -> None:
    async with cluster(history=5) as made, client(made) as our_client:
        await _fill(made, 30)
        with pytest.raises(Gone):
            async with our_client.watch("/api/v1/configmaps", {"resourceVersion": "2"}, idle_seconds=60):
                pass


@virtually
async def test_events_are_forgotten_after_an_hour() -> None:
    async with cluster("1 zone=a") as made:
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=1))
        await asyncio.sleep(A_WHILE)
        assert made.all(kinds.CORE_EVENTS)
        await asyncio.sleep(3700)
        assert not made.all(kinds.CORE_EVENTS)
