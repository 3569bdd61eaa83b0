"""The real API server: each way to read a list, custom resources, and a restart under an open watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from plimsoll.kube.cache.list_reader import ListReader
from plimsoll.kube.cache.reflector import Reflector
from plimsoll.kube.cache.store import Store
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import load_credentials
from plimsoll.kube.types.meta import CustomObject, KubeObject
from plimsoll.kube.types.resources import CONFIGMAPS, PODS, Resource
from plimsoll.runtime.clock import RealClock
from tests.eventually import eventually
from tests.kube.reflected_store import contents
from tools.controlplane.cluster import ControlPlane

WAYS: dict[str, dict[str, Any]] = {"whole": {}, "paged": {"page_size": 3}, "streamed": {"streaming": True}}
THINGS = Resource("reflector.example.com", "v1", "things", "Thing", CustomObject)


def connect(kubeconfig: Path) -> Client:
    return Client(load_credentials(kubeconfig), clock=RealClock(), timeout_seconds=240)


@asynccontextmanager
async def following(
    client: Client, resource: Resource[Any], namespace: str, **options: Any
) -> AsyncIterator[Reflector[Any]]:
    reflector = Reflector(client, Store(resource), RealClock(), namespace=namespace, **options)
    task = asyncio.create_task(reflector.run())
    try:
        await eventually(lambda: reflector.store.synced, "the first list")
        yield reflector
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def live(client: Client, resource: Resource[Any], namespace: str) -> dict[Any, KubeObject]:
    found = await client.list(resource, namespace)
    return {(obj.namespace, obj.name): obj for obj in found.items}


async def write(client: Client, namespace: str, name: str, value: str) -> None:
    body = {"metadata": {"name": name}, "data": {"value": value, "tricky": '},{"metadata":{"name":"x"}}'}}
    await client.create(CONFIGMAPS, namespace, body)


def _name(obj: object) -> str:
    assert isinstance(obj, KubeObject)
    return obj.name


@pytest.mark.parametrize("way", WAYS)
async def test_each_way_to_list_follows_the_server(control_plane: ControlPlane, namespace: str, way: str) -> None:
    async with connect(control_plane.kubeconfig) as client:
        for number in range(7):
            await write(client, namespace, f"m{number}", str(number))
        async with following(client, CONFIGMAPS, namespace, **WAYS[way]) as reflector:
            store = reflector.store

            async def follows() -> bool:
                return contents(store) == await live(client, CONFIGMAPS, namespace)

            # Eventually: the control plane puts a ConfigMap of its own into every namespace.
            await eventually(follows, "what there is")
            await write(client, namespace, "new", "x")
            await client.patch(CONFIGMAPS, namespace, "m0", {"data": {"value": "changed"}})
            await client.delete(CONFIGMAPS, namespace, "m1", uid=contents(store)[namespace, "m1"].uid)
            await eventually(follows, "the changes")
            assert contents(store)[namespace, "m0"].data["value"] == "changed"
            assert (namespace, "m1") not in contents(store)
            assert reflector.relists == {"start": 1}
            assert reflector.problem == ""


async def test_custom_resources_come_one_by_one_too(control_plane: ControlPlane, namespace: str) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": THINGS.plural, "singular": "thing", "kind": THINGS.kind}
    definition = {
        "metadata": {"name": f"{THINGS.plural}.{THINGS.group}"},
        "spec": {"group": THINGS.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    control_plane.request("POST", definitions, definition)
    path = THINGS.path(namespace)
    control_plane.wait_for(lambda: _answers(control_plane, path), "the new kind is served")
    try:
        async with connect(control_plane.kubeconfig) as client:
            nested = {"apiVersion": THINGS.api_version, "kind": THINGS.kind, "metadata": {"name": "inner"}}
            for number in range(5):
                body = {"metadata": {"name": f"t{number}"}, "spec": {"list": [nested, nested]}}
                await client.create(THINGS, namespace, body)
            reader = ListReader(THINGS)
            assert [_name(obj) for obj in reader.feed(await client.read(path))] == ["t0", "t1", "t2", "t3"]
            _, rest = reader.finish()
            assert [_name(obj) for obj in rest] == ["t4"]
            async with following(client, THINGS, namespace) as reflector:
                assert contents(reflector.store) == await live(client, THINGS, namespace)
    finally:
        control_plane.request("DELETE", f"{definitions}/{THINGS.plural}.{THINGS.group}")


def _answers(control_plane: ControlPlane, path: str) -> bool:
    try:
        control_plane.request("GET", path)
    except Exception:  # noqa: BLE001 (whatever it says: not yet)
        return False
    return True


async def test_a_restart_of_the_api_server_is_outlived(api_server: ControlPlane) -> None:
    namespace = api_server.add_namespace()
    async with connect(api_server.kubeconfig) as client:
        await write(client, namespace, "before", "1")
        async with following(client, CONFIGMAPS, namespace, grace_seconds=0.1) as reflector:
            store = reflector.store
            await asyncio.to_thread(api_server.stop_component, "apiserver")
            await eventually(lambda: not store.synced, "the loss is noticed")
            assert store.get(namespace, "before") is not None
            assert reflector.problem
            await asyncio.to_thread(api_server.start_component, "apiserver")
            await eventually(lambda: store.synced, "live again")
            await write(client, namespace, "after", "2")
            now = await live(client, CONFIGMAPS, namespace)
            await eventually(lambda: contents(store) == now, "what came after")
            assert reflector.problem == ""


async def test_quantities_that_the_server_keeps_as_they_were_written(
    control_plane: ControlPlane, namespace: str
) -> None:
    """A quantity of 101 digits made the whole view of pods fail."""
    written = {"odd": "0" * 100 + "1", "long": "0" * 300 + "2", "exponent": "1e3", "signed": "+5", "point": "7."}
    async with connect(control_plane.kubeconfig) as client, following(client, PODS, namespace) as reflector:
        for name, cpu in written.items():
            container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
            await client.create(PODS, namespace, {"metadata": {"name": name}, "spec": {"containers": [container]}})
        await eventually(lambda: len(reflector.store) == len(written), "all pods")
        kept = msgspec.json.decode(await client.read(PODS.path(namespace, "odd")))
        assert kept["spec"]["containers"][0]["resources"]["requests"]["cpu"] == written["odd"]
        requests = {pod.name: pod.spec.containers[0].resources.requests["cpu"].units for pod in reflector.store}
        assert requests == {"odd": 1, "long": 2, "exponent": 1000, "signed": 5, "point": 7}
        assert reflector.store.quarantined == {}
