"""Who is asked about new pods, on a real API server: the leader for as long as it runs, a follower through it, or nobody."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

from plimsoll.config import Config
from plimsoll.controllers.placement.annotations import CLASS, REASON, TOKEN
from plimsoll.controllers.placement.webhook_configuration import (
    SECRET,
    service_client,
    service_configuration,
    url_configuration,
    webhooks,
)
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import NotFound
from plimsoll.kube.types.resources import LEASES, PODS, SECRETS, STATEFULSETS
from plimsoll.webhook.certificates import make_certificate
from plimsoll.webhook.forwarding import ADDRESS
from plimsoll.webhook.registration import REGISTERED_BY, WEBHOOK_CONFIGURATIONS, ServiceRegistration
from tests.eventually import eventually
from tests.placement.webhook_cluster import (
    asked,
    config,
    deploy,
    only,
    operating,
    pods_of,
    registered,
    registered_by,
    split,
    template,
    wanted,
)
from tools.controlplane.cluster import ControlPlane

LABELS = {"operation": "CREATE", "resource_kind": "Pod"}


def left_behind(home: str, namespace: str) -> dict[str, Any]:
    """What a process that crashed has registered."""
    where = {"url": "https://127.0.0.1:9/mutate"}
    hooks = webhooks(where, operator_namespace=home, timeout_seconds=1, namespace_labels=only(namespace))
    return {"metadata": {"name": url_configuration(home), "annotations": {REGISTERED_BY: "crashed"}}, "webhooks": hooks}


async def test_registered_while_it_runs_and_gone_afterwards_and_a_stale_one_replaced(
    control_plane: ControlPlane, client: Client, namespace: str, home: str
):
    await client.create(WEBHOOK_CONFIGURATIONS, "", left_behind(home, namespace))
    async with operating(control_plane, config(home, namespace)) as running:
        await registered(client)
        found = await client.get(WEBHOOK_CONFIGURATIONS, "", url_configuration(home))
        (hook,) = found.webhooks
        assert running.server is not None
        assert hook["clientConfig"]["url"] == f"https://127.0.0.1:{running.server.port}/mutate"
        assert (hook["failurePolicy"], hook["sideEffects"]) == ("Ignore", "NoneOnDryRun")
        (excluded,) = hook["namespaceSelector"]["matchExpressions"]
        assert excluded["values"] == ["kube-system", home]
        await asked(running, client, namespace)
    assert await registered_by(client) is None


async def test_pods_that_no_replica_set_or_stateful_set_creates_are_not_even_asked_about(
    control_plane: ControlPlane, client: Client, namespace: str, home: str
):
    async with operating(control_plane, config(home, namespace)) as running:
        await registered(client)
        await asked(running, client, namespace)

        def questions() -> float:
            name = "spotalis_webhook_requests_total"
            return sum(running.counted(name, **LABELS, result=result) for result in ("left-alone", "assigned"))

        before = questions()
        spec = template("bare")["spec"]
        await client.create(PODS, namespace, {"metadata": {"name": "bare"}, "spec": spec})
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
        await client.create(PODS, namespace, {"metadata": {"name": "job", "ownerReferences": [owner]}, "spec": spec})
        not_ours = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r"}
        meta = {"name": "reference", "ownerReferences": [not_ours]}
        await client.create(PODS, namespace, {"metadata": meta, "spec": spec})
        assert questions() == before


async def test_a_stateful_sets_pods_get_the_class_of_their_place(
    control_plane: ControlPlane, client: Client, namespace: str, home: str
):
    async with operating(control_plane, config(home, namespace)) as running:
        await registered(client)
        await asked(running, client, namespace)
        annotations = {
            "spotalis.io/enabled": "true", "spotalis.io/spot-percentage": "50%", "spotalis.io/min-on-demand": "1",
        }  # fmt: skip
        spec = {
            "replicas": 6,
            "podManagementPolicy": "Parallel",
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": template("db"),
        }
        await client.create(
            STATEFULSETS, namespace, {"metadata": {"name": "db", "annotations": annotations}, "spec": spec}
        )

        async def created() -> bool:
            return len(await pods_of(client, namespace, "db")) == 6

        await eventually(created)
        pods = {pod.name: pod for pod in await pods_of(client, namespace, "db")}
        classes = [pods[f"db-{ordinal}"].annotations[CLASS] for ordinal in range(6)]
        assert classes == ["on-demand", "spot", "on-demand", "spot", "on-demand", "spot"]
        assert {pod.annotations[REASON] for pod in pods.values()} == {"ordinal"}
        assert all(pod.annotations[TOKEN] for pod in pods.values())


async def test_a_follower_forwards_to_the_leader_whose_address_is_on_the_lease(
    control_plane: ControlPlane, client: Client, namespace: str, home: str
):
    async with operating(control_plane, config(home, namespace), "leader") as leader:
        await registered(client, "leader")
        lease = await client.get(LEASES, home, "plimsoll-leader")
        assert leader.server is not None
        assert lease.annotations[ADDRESS] == f"127.0.0.1:{leader.server.port}"
        async with operating(control_plane, config(home, namespace), "follower") as follower:
            await eventually(lambda: follower.operator.not_ready() is None)
            assert follower.server is not None
            secret = await client.get(SECRETS, home, SECRET)
            where = {"url": f"https://127.0.0.1:{follower.server.port}/mutate", "caBundle": secret.data["ca.crt"]}
            hooks = webhooks(where, operator_namespace=home, timeout_seconds=30, namespace_labels=only(namespace))
            # Asked before the leader itself is, because of its name; the leader then recognises its own answer.
            body = {"metadata": {"name": "follower"}, "webhooks": hooks}
            first = await client.create(WEBHOOK_CONFIGURATIONS, "", body)
            await asked(follower, client, namespace, "forwarded")
            await deploy(client, namespace, "web", 20, "70%")

            async def created() -> bool:
                return len(await pods_of(client, namespace, "web")) == 20

            await eventually(created)
            pods = await pods_of(client, namespace, "web")
            assert split(pods) == wanted(20, 70)
            assert {pod.annotations[REASON] for pod in pods} == {"share"}
            assert follower.counted("plimsoll_admission_forwards_total", result="answered") >= 20
            await client.delete(WEBHOOK_CONFIGURATIONS, "", "follower", uid=first.uid)


async def test_in_the_cluster_the_leader_keeps_the_ca_bundle_of_what_was_installed(
    control_plane: ControlPlane, client: Client, namespace: str, home: str
):
    hooks = webhooks(service_client(home), operator_namespace=home, timeout_seconds=1, namespace_labels=only(namespace))
    body = {"metadata": {"name": service_configuration(home)}, "webhooks": hooks}
    installed = await client.create(WEBHOOK_CONFIGURATIONS, "", body)
    await client.create(WEBHOOK_CONFIGURATIONS, "", left_behind(home, namespace))
    try:
        async with operating(control_plane, config(home, namespace, mode="service")):

            async def trusted() -> bool:
                found = await client.get(WEBHOOK_CONFIGURATIONS, "", service_configuration(home))
                secret = await client.get(SECRETS, home, SECRET)
                bundle = found.webhooks[0]["clientConfig"].get("caBundle", "")
                return bool(base64.b64decode(bundle) == base64.b64decode(secret.data["ca.crt"]))

            await eventually(trusted, "the CA bundle in the configuration")
            assert await registered_by(client) is None
        assert (await client.get(WEBHOOK_CONFIGURATIONS, "", service_configuration(home))).uid == installed.uid
    finally:
        await client.delete(WEBHOOK_CONFIGURATIONS, "", service_configuration(home), uid=installed.uid)


async def test_a_bundle_that_cert_manager_injects_is_left_alone_and_so_are_the_webhooks_of_others(
    client: Client, namespace: str, home: str
):
    (ours,) = webhooks(
        service_client(home), operator_namespace=home, timeout_seconds=1, namespace_labels=only(namespace)
    )
    injected, _, _ = make_certificate(["127.0.0.1"], datetime.now(UTC))
    bundle = base64.b64encode(injected).decode()
    ours["clientConfig"]["caBundle"] = bundle
    body = {"metadata": {"name": service_configuration(home)}, "webhooks": [{**ours, "name": "of.someone.else"}, ours]}
    installed = await client.create(WEBHOOK_CONFIGURATIONS, "", body)

    async def bundles() -> list[str]:
        found = await client.get(WEBHOOK_CONFIGURATIONS, "", service_configuration(home))
        return [one["clientConfig"]["caBundle"] for one in found.webhooks]

    try:
        registration = ServiceRegistration(client, namespace=home)
        assert await registration.keep(b"")
        assert await bundles() == [bundle, bundle]
        own, _, _ = make_certificate(["127.0.0.1"], datetime.now(UTC))
        assert await registration.keep(own)
        assert await bundles() == [bundle, base64.b64encode(own).decode()]
    finally:
        await client.delete(WEBHOOK_CONFIGURATIONS, "", service_configuration(home), uid=installed.uid)


async def test_switched_off_it_takes_away_what_a_crash_left_behind(
    control_plane: ControlPlane, client: Client, namespace: str, home: str
):
    await client.create(WEBHOOK_CONFIGURATIONS, "", left_behind(home, namespace))
    async with operating(control_plane, config(home, namespace, mode="off")) as running:
        assert running.server is None

        async def gone() -> bool:
            return await registered_by(client) is None

        await eventually(gone)


async def test_read_only_registers_nothing_serves_nothing_and_writes_nothing(
    control_plane: ControlPlane, client: Client, namespace: str, home: str
):
    stale = await client.create(WEBHOOK_CONFIGURATIONS, "", left_behind(home, namespace))
    try:
        settings: Config = config(home, namespace, read_only=True)
        async with operating(control_plane, settings) as running:
            await eventually(lambda: running.operator.not_ready() is None)
            assert running.server is None
            await deploy(client, namespace, "web", 3, "70%")

            async def created() -> bool:
                return len(await pods_of(client, namespace, "web")) == 3

            await eventually(created)
            assert split(await pods_of(client, namespace, "web")) == {"unmarked": 3}
        assert await registered_by(client) == "crashed"
        try:
            await client.get(SECRETS, home, SECRET)
        except NotFound:
            return
        raise AssertionError("a Secret was made in read-only mode")
    finally:
        await client.delete(WEBHOOK_CONFIGURATIONS, "", url_configuration(home), uid=stale.uid)


async def test_another_installation_in_the_cluster_keeps_its_own(
    control_plane: ControlPlane, client: Client, namespace: str, home: str
):
    """A leader takes away what its own predecessor left, and nothing that points to a process of others."""
    others = await client.create(WEBHOOK_CONFIGURATIONS, "", left_behind(namespace, namespace))
    try:
        await client.create(WEBHOOK_CONFIGURATIONS, "", left_behind(home, namespace))
        async with operating(control_plane, config(home, namespace, mode="off")):

            async def is_gone() -> bool:
                return [one.name for one in (await client.list(WEBHOOK_CONFIGURATIONS)).items] == [others.name]

            await eventually(is_gone, "its own is taken away")
    finally:
        await client.delete(WEBHOOK_CONFIGURATIONS, "", others.name, uid=others.uid)


async def test_a_leader_without_a_webhook_takes_its_predecessors_address_off_the_lease(
    control_plane: ControlPlane, client: Client, namespace: str, home: str
):
    async with operating(control_plane, config(home, namespace), "one") as one:
        await eventually(lambda: one.operator.leading)
    async with operating(control_plane, config(home, namespace, mode="off"), "two") as two:
        await eventually(lambda: two.operator.leading)
        lease = await client.get(LEASES, home, "plimsoll-leader")
        assert lease.spec.holder_identity == "two"
        assert ADDRESS not in lease.annotations
