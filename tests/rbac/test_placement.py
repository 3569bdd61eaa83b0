"""Placement with only its own permissions and its webhook behind a Service: admission, moves, certificates, disruption records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll.controllers.placement.spec import DURATION, ENABLED, MIN_ON_DEMAND, SCHEDULE, SPOT_PERCENTAGE
from plimsoll.controllers.placement.webhook_configuration import (
    SECRET,
    SERVICE,
    service_configuration,
    url_configuration,
)
from plimsoll.webhook.registration import REGISTERED_BY
from tests.cli.command import plimsoll
from tests.eventually import eventually
from tests.placement.webhook_cluster import empty
from tests.rbac.account import Account, Gate, installed
from tools.controlplane.cluster import ControlPlane

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
LIMITS = (
    "controllers.workloadTiming.cooldownPeriod=0s", "controllers.workloadTiming.disruptionRetryInterval=1s",
    "placement.maxMigrations=100", "placement.maxMigrationsPerCluster=100",
)  # fmt: skip


@pytest.fixture
def namespace(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    yield namespace
    control_plane.request("DELETE", WEBHOOKS)
    empty(control_plane, namespace)


def chosen(namespace: str) -> list[str]:
    settings = ["webhook.timeout=10s", f"placement.namespaceSelector=kubernetes.io/metadata.name={namespace}", *LIMITS]
    return ["--controllers", "placement", *(word for one in settings for word in ("--set", one))]


def workload(name: str, spot: str, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"containers": [{"name": "main", "image": "example.org/none"}], "terminationGracePeriodSeconds": 0}
    return {
        "metadata": {
            "name": name,
            "annotations": {ENABLED: "true", SPOT_PERCENTAGE: spot, MIN_ON_DEMAND: "0"},
        },
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            **spec,
        },
    }


async def reached_through_a_service(account: Account, home: str, arguments: list[str]) -> None:
    """What the manifests have of the webhook. The Service leads to this machine, there being no pods behind it."""
    port = (await account.operator.logged("serving admission webhook"))["port"]
    service = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
    await account.direct.create(f"/api/v1/namespaces/{home}/services", {"metadata": {"name": SERVICE}, "spec": service})
    printed = yaml.safe_load_all(plimsoll("manifests", "--namespace", home, *arguments).stdout)
    (configuration,) = (one for one in printed if one["kind"] == "MutatingWebhookConfiguration")
    (hook,) = configuration["webhooks"]
    hook["clientConfig"]["service"]["port"] = port
    await account.direct.create(WEBHOOKS, configuration)

    async def trusted() -> bool:
        (now,) = (await account.direct.get(f"{WEBHOOKS}/{service_configuration(home)}"))["webhooks"]
        return bool(now["clientConfig"].get("caBundle"))

    await eventually(trusted, "the operator's authority in the configuration")


@pytest.mark.parametrize("everywhere", [True, False], ids=["everywhere", "one watched namespace"])
async def test_placement(
    control_plane: ControlPlane,
    namespace: str,
    home: str,
    kwok_nodes: Callable[[str], list[str]],
    tmp_path: Path,
    everywhere: bool,
):
    spot, on_demand = kwok_nodes("1 class=spot"), kwok_nodes("1 class=on-demand")
    apps, pods = f"/apis/apps/v1/namespaces/{namespace}", f"/api/v1/namespaces/{namespace}/pods"
    watched = [] if everywhere else ["--set", f"operator.watchNamespaces={namespace}"]
    arguments, gate = [*chosen(namespace), *watched], Gate()
    control_plane.request(  # what an operator outside of the cluster would have left when it crashed
        "POST", WEBHOOKS, {"metadata": {"name": url_configuration(home), "annotations": {REGISTERED_BY: "crashed"}}}
    )

    def of_owners(call: Any) -> bool:
        return call.verb == "watch" and call.resource in ("deployments", "replicasets", "statefulsets")

    async with installed(
        control_plane, tmp_path, *arguments, home=home, faults=[(of_owners, gate)],
        settings=("webhook.port=0", "webhook.host=127.0.0.1"),
    ) as account:  # fmt: skip

        async def on(node: str) -> bool:
            items = (await account.direct.get(f"{pods}?labelSelector=app%3Dweb"))["items"]
            alive = [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]
            return [pod["spec"].get("nodeName") for pod in alive] == [node] * 3

        await reached_through_a_service(account, home, arguments)
        secret = f"/api/v1/namespaces/{home}/secrets/{SECRET}"
        await account.direct.patch(secret, {"data": {"tls.crt": ""}})  # spoilt; mended at the next look
        gate.open.clear()  # the owners are not in the view when their first pods are asked about
        await account.direct.create(f"{apps}/deployments", workload("web", "100%"))
        await account.direct.create(f"{apps}/statefulsets", workload("db", "100%", serviceName="db"))
        for kind in ("replicasets", "deployments", "statefulsets"):
            await account.asked_for("get", kind)
        gate.open.set()
        await eventually(lambda: on(spot[0]), "all on spot")

        async def share(text: str) -> None:
            await account.direct.patch(
                f"{apps}/deployments/web", {"metadata": {"annotations": {SPOT_PERCENTAGE: text}}}
            )

        await share("0%")
        await eventually(lambda: on(on_demand[0]), "all on-demand")
        await account.repeats_an_event(lambda: share("many"), lambda: share("0%"))
        await account.asked_for("patch", "secrets")
        if not everywhere:
            await _tells_of_a_namespace(account, namespace)
    assert account.complaints() == []


async def _tells_of_a_namespace(account: Account, namespace: str) -> None:
    """Again and again, in the namespace that events about such objects go to, and that nobody watches."""

    async def window(schedule: str) -> None:
        annotations = {SCHEDULE: schedule, DURATION: "1h"}
        await account.direct.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"annotations": annotations}})

    def told() -> bool:
        return any(
            one.call.resource == "events" and one.call.verb == "patch" and one.call.namespace == "default"
            for one in account.record
        )

    await account.repeats(lambda: window("whenever"), lambda: window("0 2 * * *"), told, "an event about a namespace")
