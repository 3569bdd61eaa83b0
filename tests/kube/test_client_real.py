"""The client and a real API server: what we believe about its answers, checked."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import load_credentials
from plimsoll.kube.client.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import BUDGETS, CONFIGMAPS, NAMESPACES, PODS, Resource, metadata_of
from plimsoll.runtime.clock import RealClock
from tools.controlplane.cluster import ControlPlane

T = TypeVar("T")
THINGS = Resource("test.plimsoll.dev", "v1", "things", "Thing", KubeObject)


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    credentials = load_credentials(control_plane.kubeconfig)
    async with Client(credentials, clock=RealClock(), qps=1000, burst=1000, timeout_seconds=240) as client:
        yield client


async def until(ask: Callable[[], Awaitable[T]], good: Callable[[T], bool], what: str) -> T:
    deadline = time.monotonic() + 60
    while True:
        answer = await ask()
        if good(answer):
            return answer
        assert time.monotonic() < deadline, f"{what}: still {answer}"
        await asyncio.sleep(0.1)


def configmap(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def test_an_object_from_its_making_to_its_end(client: Client, namespace: str) -> None:
    made = await client.create(CONFIGMAPS, namespace, configmap("a", x="1"))
    assert made.uid and made.data == {"x": "1"}
    assert (await client.get(CONFIGMAPS, namespace, "a")).uid == made.uid
    with pytest.raises(AlreadyExists):
        await client.create(CONFIGMAPS, namespace, configmap("a"))
    version = made.metadata.resource_version
    changed = await client.patch(
        CONFIGMAPS, namespace, "a", {"data": {"y": "2"}}, uid=made.uid, resource_version=version
    )
    assert changed.data == {"x": "1", "y": "2"}
    with pytest.raises(Conflict):
        await client.delete(CONFIGMAPS, namespace, "a", uid=made.uid, resource_version=version)
    with pytest.raises(Conflict):
        await client.delete(CONFIGMAPS, namespace, "a", uid="another")
    await client.delete(CONFIGMAPS, namespace, "a", uid=made.uid, resource_version=changed.metadata.resource_version)
    with pytest.raises(NotFound):
        await client.get(CONFIGMAPS, namespace, "a")
    with pytest.raises(NotFound):
        await client.delete(CONFIGMAPS, namespace, "a", uid=made.uid)


async def test_a_list_of_many_pages_and_selectors(
    client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plimsoll.kube.client.client._PAGE_SIZE", 3)
    for number in range(8):
        body = configmap(f"m{number}")
        body["metadata"]["labels"] = {"half": str(number % 2)}
        await client.create(CONFIGMAPS, namespace, body)
    listing = await client.list(CONFIGMAPS, namespace, label_selector="half in (0,1)")
    assert [item.name for item in listing.items] == [f"m{number}" for number in range(8)]
    assert int(listing.resource_version) >= max(int(item.metadata.resource_version) for item in listing.items)
    assert len((await client.list(CONFIGMAPS, namespace, label_selector="half=1")).items) == 4
    assert [i.name for i in (await client.list(CONFIGMAPS, namespace, field_selector="metadata.name=m5")).items] == [
        "m5"
    ]
    assert namespace in {item.name for item in (await client.list(NAMESPACES)).items}


# ── patches and their guards ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("merge", {"data": {"x": "2"}}),
        ("strategic", {"data": {"x": "2"}}),
        ("json", [{"op": "replace", "path": "/data/x", "value": "2"}]),
        ("apply", {"data": {"x": "2"}}),
    ],
)
async def test_every_form_of_patch_changes_only_what_was_meant(
    client: Client, namespace: str, form: Any, body: Any
) -> None:
    made = await client.create(CONFIGMAPS, namespace, configmap("a", x="1"))
    guards: Any
    other = {"uid": "00000000-0000-0000-0000-000000000000"}
    old = {"uid": made.uid, "resource_version": "1"}
    for guards in (other, old, {"resource_version": "1"}):
        with pytest.raises(Conflict):
            await client.patch(CONFIGMAPS, namespace, "a", body, form=form, force=True, **guards)
    right: Any = {"uid": made.uid, "resource_version": made.metadata.resource_version}
    rehearsed = await client.patch(CONFIGMAPS, namespace, "a", body, form=form, force=True, dry_run=True, **right)
    assert rehearsed.data == {"x": "2"}
    assert (await client.get(CONFIGMAPS, namespace, "a")).metadata.resource_version == made.metadata.resource_version
    changed = await client.patch(CONFIGMAPS, namespace, "a", body, form=form, force=True, **right)
    assert changed.data == {"x": "2"} and changed.uid == made.uid


async def test_a_patch_whose_reply_is_brief_is_guarded_as_any_other(client: Client, namespace: str) -> None:
    made = await client.create(CONFIGMAPS, namespace, configmap("a", x="1"))
    version = made.metadata.resource_version
    brief, body = metadata_of(CONFIGMAPS), {"data": {"x": "2"}}
    for uid, seen in (("00000000-0000-0000-0000-000000000000", version), (made.uid, "1")):
        with pytest.raises(Conflict):
            await client.patch(brief, namespace, "a", body, form="strategic", uid=uid, resource_version=seen)
    changed = await client.patch(brief, namespace, "a", body, form="strategic", uid=made.uid, resource_version=version)
    there = await client.get(CONFIGMAPS, namespace, "a")
    assert there.data == {"x": "2"}
    assert changed.metadata.resource_version == there.metadata.resource_version != version


async def test_a_json_patch_that_is_wrong_in_itself_is_invalid_and_no_conflict(client: Client, namespace: str) -> None:
    made = await client.create(CONFIGMAPS, namespace, configmap("a", x="1"))
    with pytest.raises(Invalid):
        await client.patch(
            CONFIGMAPS,
            namespace,
            "a",
            [{"op": "replace", "path": "/no/such/path", "value": 1}],
            form="json",
            uid=made.uid,
        )


async def test_applying_what_another_manages_is_a_conflict_unless_forced(client: Client, namespace: str) -> None:
    await client.patch(CONFIGMAPS, namespace, "a", {"data": {"x": "1"}}, form="apply")  # makes it, too
    await client.patch(CONFIGMAPS, namespace, "a", {"data": {"x": "2"}})  # an update takes the field over
    with pytest.raises(Conflict, match=r"data\.x"):
        await client.patch(CONFIGMAPS, namespace, "a", {"data": {"x": "3"}}, form="apply")
    assert (await client.patch(CONFIGMAPS, namespace, "a", {"data": {"x": "3"}}, form="apply", force=True)).data == {
        "x": "3"
    }


async def test_what_breaks_a_rule_names_its_field(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid) as caught:
        await client.create(PODS, namespace, {"metadata": {"name": "p"}, "spec": {}})
    assert caught.value.causes == ("spec.containers: Required value",)


@pytest.fixture
async def things(client: Client, control_plane: ControlPlane) -> None:
    """A custom resource with a status of its own."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1", "served": True, "storage": True,
        "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    names = {"plural": "things", "singular": "thing", "kind": "Thing"}
    definition = {"metadata": {"name": "things.test.plimsoll.dev"}, "spec": {
        "group": "test.plimsoll.dev", "scope": "Namespaced", "names": names, "versions": [version],
    }}  # fmt: skip
    definitions = Resource(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        KubeObject,
        namespaced=False,
    )
    with contextlib.suppress(AlreadyExists):
        await client.create(definitions, "", definition)

    async def served() -> bool:
        try:
            await client.list(THINGS)
        except NotFound:
            return False
        return True

    await until(served, bool, "things are served")


async def test_a_status_is_guarded_by_resource_version_or_by_a_json_patch(
    client: Client, namespace: str, things: None
) -> None:
    made = await client.create(THINGS, namespace, {"metadata": {"name": "t"}})
    wrong_uid, status = "00000000-0000-0000-0000-000000000000", [{"op": "add", "path": "/status", "value": {"x": 1}}]
    with pytest.raises(Conflict):
        await client.patch(THINGS, namespace, "t", status, form="json", uid=wrong_uid, subresource="status")
    with pytest.raises(Conflict):
        await client.patch(
            THINGS, namespace, "t", {"status": {"x": 1}}, uid=made.uid, resource_version="1", subresource="status"
        )
    with pytest.raises(ValueError, match="ignores the uid"):
        await client.patch(THINGS, namespace, "t", {"status": {"x": 1}}, uid=wrong_uid, subresource="status")
    await client.patch(
        THINGS, namespace, "t", {"status": {"x": 1}},
        uid=made.uid, resource_version=made.metadata.resource_version, subresource="status",
    )  # fmt: skip
    assert msgspec.json.decode(await client.read(THINGS.path(namespace, "t")))["status"] == {"x": 1}


async def test_the_server_still_ignores_a_uid_in_a_status_patch(client: Client, namespace: str, things: None) -> None:
    """Why the client refuses such a patch. If this fails, the server has learned, and the client may."""
    await client.create(THINGS, namespace, {"metadata": {"name": "t"}})
    body = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}, "status": {"x": 1}}
    await client.patch(THINGS, namespace, "t", body, subresource="status")


# ── eviction ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def running_pod(client: Client, namespace: str, node: str, name: str, labels: Mapping[str, str]) -> Any:
    body = {
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "image": "none"}],
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
        },
    }
    await client.create(PODS, namespace, body)
    return await until(
        lambda: client.get(PODS, namespace, name), lambda pod: pod.status.phase == "Running", f"pod {name} runs"
    )


async def budget(client: Client, namespace: str, name: str, healthy: int, minimum: int) -> None:
    spec = {"minAvailable": minimum, "selector": {"matchLabels": {"app": "web"}}}
    await client.create(BUDGETS, namespace, {"metadata": {"name": name}, "spec": spec})
    await until(
        lambda: client.get(BUDGETS, namespace, name),
        lambda seen: seen.status.current_healthy == healthy and seen.status.observed_generation > 0,
        f"budget {name} counts",
    )


async def test_evictions_under_no_budget_one_and_two(
    client: Client, namespace: str, kwok_nodes: Callable[[str], list[str]]
) -> None:
    (node,) = kwok_nodes("1")
    pods = [await running_pod(client, namespace, node, f"w{number}", {"app": "web"}) for number in range(3)]
    with pytest.raises(Conflict):
        await client.evict(namespace, "w0", uid="00000000-0000-0000-0000-000000000000")
    await client.evict(namespace, "w0", uid=pods[0].uid, dry_run=True)
    assert not (await client.get(PODS, namespace, "w0")).terminating
    await client.evict(namespace, "w0", uid=pods[0].uid)
    with pytest.raises(NotFound):
        await client.evict(namespace, "nobody", uid=pods[0].uid)

    await budget(client, namespace, "first", healthy=2, minimum=2)
    with pytest.raises(TooManyRequests, match="first needs 2 healthy pods and has 2") as caught:
        await client.evict(namespace, "w1", uid=pods[1].uid)
    assert caught.value.disruption_budget

    await budget(client, namespace, "second", healthy=2, minimum=0)
    with pytest.raises(ServerError, match="more than one PodDisruptionBudget"):
        await client.evict(namespace, "w1", uid=pods[1].uid)


# ── who we are ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_rights_that_we_do_not_have(control_plane: ControlPlane, namespace: str) -> None:
    kubeconfig = control_plane.kubeconfig_for("nobody-in-particular")
    async with Client(load_credentials(kubeconfig), clock=RealClock()) as client:
        with pytest.raises(Forbidden, match='User "nobody-in-particular" cannot list resource "pods"'):
            await client.list(PODS, namespace)


async def test_a_token_that_nobody_knows(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(control_plane.kubeconfig.read_text().replace(control_plane.admin_token, "stranger"))
    async with Client(load_credentials(kubeconfig), clock=RealClock()) as client:
        with pytest.raises(Unauthorized):
            await client.list(PODS, namespace)


# ── watches, history and outages ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_watch_brings_what_happens_and_ends_on_time(client: Client, namespace: str) -> None:
    listing = await client.list(CONFIGMAPS, namespace)
    params = {"resourceVersion": listing.resource_version, "timeoutSeconds": "2", "allowWatchBookmarks": "true"}
    heard = b""
    async with client.watch(CONFIGMAPS.path(namespace), params, idle_seconds=30) as chunks:
        await client.create(CONFIGMAPS, namespace, configmap("late", x="1"))
        async for chunk in chunks:
            heard += chunk
    assert b'"name":"late"' in heard


async def test_history_that_is_compacted_is_gone(api_server: ControlPlane) -> None:
    async with Client(
        load_credentials(api_server.kubeconfig), clock=RealClock(), qps=1000, burst=1000, timeout_seconds=240
    ) as client:
        for number in range(4):
            await client.create(CONFIGMAPS, "default", configmap(f"c{number}"))
        path = CONFIGMAPS.path("default")
        page = msgspec.json.decode(await client.read(path, {"limit": "1"}))
        token, version = page["metadata"]["continue"], page["metadata"]["resourceVersion"]

        async def ask(params: dict[str, str]) -> ApiError | None:
            await client.patch(CONFIGMAPS, "default", "c0", {"data": {"now": str(time.monotonic_ns())}})
            try:
                await client.read(path, params)
            except ApiError as error:
                return error
            return None

        expired = await until(
            lambda: ask({"limit": "1", "continue": token}), lambda e: e is not None, "the token expires"
        )
        assert isinstance(expired, Gone) and expired.reason == "Expired"
        exact = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
        gone = await until(lambda: ask(exact), lambda e: e is not None, "the version is compacted")
        assert isinstance(gone, Gone)


async def test_a_guarded_write_into_a_frozen_server_is_settled_once_it_wakes(api_server: ControlPlane) -> None:
    """Its first attempt is in the socket's buffer, and nobody knows whether it counts. In the end exactly it is there."""
    statuses: list[int] = []
    async with Client(
        load_credentials(api_server.kubeconfig),
        clock=RealClock(),
        timeout_seconds=5,
        observe=lambda _verb, _plural, status, _seconds: statuses.append(status),
    ) as client:
        made = await client.create(CONFIGMAPS, "default", configmap("frozen", x="1"))
        statuses.clear()
        api_server.pause("apiserver")
        try:
            writing = asyncio.create_task(
                client.patch(
                    CONFIGMAPS, "default", "frozen", {"data": {"x": "2"}},
                    uid=made.uid, resource_version=made.metadata.resource_version,
                )
            )  # fmt: skip

            async def attempts() -> int:
                return len(statuses)

            await until(attempts, lambda count: count >= 1, "the first attempt is given up")
        finally:
            api_server.resume("apiserver")
        changed = await writing
        live = await client.get(CONFIGMAPS, "default", "frozen")
    assert statuses[0] == 0
    assert changed.data == live.data == {"x": "2"}
    assert changed.metadata.resource_version == live.metadata.resource_version
