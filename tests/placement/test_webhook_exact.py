"""A thousand pods created at once end in exactly their targets, also where a quota refuses many of them in between."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from plimsoll.controllers.placement.annotations import REASON, PlacementReason
from plimsoll.kube.client.client import Client
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.meta import CustomObject
from plimsoll.kube.types.resources import PODS, Resource
from tests.eventually import eventually
from tests.placement.webhook_cluster import asked, config, deploy, operating, pods_of, registered, split, wanted
from tools.controlplane.cluster import ControlPlane

ASSIGNED = {"operation": "CREATE", "resource_kind": "Pod", "result": "assigned"}
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", CustomObject)


def all_were_sure(pods: Iterable[Pod]) -> None:
    """Exact is promised where the API server can be asked in time; one that is starved for so long is no wrong answer of ours."""
    guessed = [pod.name for pod in pods if pod.annotations.get(REASON) == PlacementReason.APPROXIMATE.value]
    if guessed:
        raise TimeoutError(f"the API server did not answer a look in time: {len(guessed)} approximate answers")


async def test_a_thousand_from_several_replica_sets_are_exact_though_a_quota_refuses_many_at_first(
    control_plane: ControlPlane, client: Client, namespace: str, home: str
):
    quota = await client.create(QUOTAS, namespace, {"metadata": {"name": "tight"}, "spec": {"hard": {"pods": "400"}}})
    async with operating(control_plane, config(home, namespace)) as running:
        await registered(client)
        await asked(running, client, namespace)
        sizes = {"a": (400, 70, 0), "b": (300, 33, 5), "c": (200, 100, 25), "d": (100, 70, 0)}
        for name, (replicas, percentage, minimum) in sizes.items():
            await deploy(client, namespace, name, replicas, f"{percentage}%", str(minimum))

        async def created(number: int) -> bool:
            return len((await client.list(PODS, namespace)).items) == number

        await eventually(partial(created, 400), "a full quota", seconds=120)
        given = partial(running.counted, "spotalis_webhook_requests_total", **ASSIGNED)
        await eventually(lambda: given() > 440, "creations that the quota refuses", seconds=120)
        await client.patch(QUOTAS, namespace, "tight", {"spec": {"hard": {"pods": "2000"}}}, uid=quota.uid)
        await eventually(partial(created, 1000), "1,000 pods", seconds=240)
        for name, (replicas, percentage, minimum) in sizes.items():
            pods = await pods_of(client, namespace, name)
            all_were_sure(pods)
            assert split(pods) == wanted(replicas, percentage, minimum), name


async def test_refusals_by_a_quota_in_between_change_nothing(
    control_plane: ControlPlane, client: Client, namespace: str, home: str
):
    body = {"metadata": {"name": "tight"}, "spec": {"hard": {"pods": "13"}}}
    quota = await client.create(QUOTAS, namespace, body)
    async with operating(control_plane, config(home, namespace)) as running:
        await registered(client)
        await asked(running, client, namespace)
        sizes = {"a": (40, 70, 0), "b": (30, 33, 5)}
        for name, (replicas, percentage, minimum) in sizes.items():
            await deploy(client, namespace, name, replicas, f"{percentage}%", str(minimum))

        async def full(number: int) -> bool:
            return sum([len(await pods_of(client, namespace, name)) for name in sizes]) == number

        given = partial(running.counted, "spotalis_webhook_requests_total", **ASSIGNED)
        await eventually(lambda: full(13), "a full quota")
        await eventually(lambda: given() > 20, "creations that the quota refuses")
        for limit, expected in ((41, 41), (200, 70)):
            patch = {"spec": {"hard": {"pods": str(limit)}}}
            await client.patch(QUOTAS, namespace, "tight", patch, uid=quota.uid)
            await eventually(partial(full, expected), "as many pods as there may be", seconds=120)
        for name, (replicas, percentage, minimum) in sizes.items():
            pods = await pods_of(client, namespace, name)
            all_were_sure(pods)
            assert split(pods) == wanted(replicas, percentage, minimum), name
