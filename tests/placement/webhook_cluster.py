"""An operator with its webhook, beside a real API server that asks it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from plimsoll.config import Config, Kubernetes, LeaderElectionConfig, OperatorConfig, Placement, Webhook
from plimsoll.controllers.build import placement_settings
from plimsoll.controllers.placement.annotations import CLASS
from plimsoll.controllers.placement.controller import PlacementController
from plimsoll.controllers.placement.spec import ENABLED, MIN_ON_DEMAND, SPOT_PERCENTAGE
from plimsoll.controllers.placement.target import Share, target
from plimsoll.controllers.placement.webhook_configuration import url_configuration
from plimsoll.kube.client.client import Client
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import DEPLOYMENTS, PODS
from plimsoll.runtime.clock import Clock, RealClock
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import Operator, connect
from plimsoll.webhook.registration import REGISTERED_BY, WEBHOOK_CONFIGURATIONS
from plimsoll.webhook.server import WebhookServer
from plimsoll.webhook.service import placement_webhook
from tests.eventually import eventually
from tests.rbac.everywhere import kubeconfig_of_the_operator
from tools.controlplane.api import ApiError
from tools.controlplane.cluster import ControlPlane

# A machine that stands still for half a minute must not cost the lease: who leads is tested elsewhere.
ELECTION = LeaderElectionConfig(
    lease_duration=timedelta(seconds=60), renew_deadline=timedelta(seconds=45), retry_period=timedelta(milliseconds=100)
)


def only(namespace: str) -> dict[str, str]:
    """The label that selects one namespace: what a test does must not concern what another left behind."""
    return {"kubernetes.io/metadata.name": namespace}


def selector(namespace: str) -> tuple[str, ...]:
    """`only`, as `placement.namespaceSelector` has it."""
    return tuple(f"{label}={value}" for label, value in only(namespace).items())


def config(home: str, namespace: str, *, read_only: bool = False, **webhook: Any) -> Config:
    return Config(
        operator=OperatorConfig(namespace=home, audit_log="", leader_election=ELECTION, read_only_mode=read_only),
        placement=Placement(namespace_selector=selector(namespace)),
        kubernetes=Kubernetes(qps=1000, burst=1000),
        # Whether answers are right is tested here; whether they come in time on a busy machine is for benchmarks.
        webhook=Webhook(**{"mode": "url", "port": 0, "timeout": timedelta(seconds=30), **webhook}),
    )


# Whoever makes pods goes before the pods, or they would come again.
_MAKERS = ("apps/v1/deployments", "apps/v1/statefulsets", "apps/v1/replicasets")


def empty(cluster: ControlPlane, namespace: str) -> None:
    """Every pod of a namespace goes, and whoever would make another: the next test finds the cluster at rest."""
    for collection in _MAKERS:
        group, _, kind = collection.rpartition("/")
        cluster.request("DELETE", f"/apis/{group}/namespaces/{namespace}/{kind}?propagationPolicy=Background")
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def gone() -> bool:
        with contextlib.suppress(OSError, ApiError):  # a thousand at once can take longer than one request may
            cluster.request("DELETE", f"{pods}?gracePeriodSeconds=0")
            return not cluster.request("GET", pods)["items"]
        return False

    cluster.wait_for(gone, f"the pods of {namespace} to be gone")


class Running:
    def __init__(self, operator: Operator, server: WebhookServer | None, client: Client, stop: asyncio.Event) -> None:
        self.operator, self.server, self.client, self.stop = operator, server, client, stop

    def counted(self, name: str, **labels: str) -> float:
        return self.operator.metrics.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def operating(
    cluster: ControlPlane, settings: Config, name: str = "one", *, clock: Clock | None = None
) -> AsyncIterator[Running]:
    """The operator as `plimsoll run` has it, with the placement controller, until the block ends."""
    metrics, stop, time = Metrics(), asyncio.Event(), clock or RealClock()
    controllers = [PlacementController(placement_settings(settings))]
    async with connect(
        settings, metrics, kubeconfig=kubeconfig_of_the_operator(cluster, settings), context=None
    ) as client:
        operator = Operator(settings, client, controllers, clock=time, metrics=metrics, name=name)
        async with placement_webhook(settings, controllers, client, operator, clock=time, identity=name) as server:
            life = asyncio.create_task(operator.run(stop))
            try:
                yield Running(operator, server, client, stop)
            finally:
                stop.set()
                await asyncio.gather(life, return_exceptions=True)


async def registered_by(client: Client) -> str | None:
    """Of whichever installation: no two tests share the cluster at a time."""
    found = (await client.list(WEBHOOK_CONFIGURATIONS)).items
    return next(
        (one.annotations.get(REGISTERED_BY) for one in found if one.name.startswith(url_configuration(""))), None
    )


async def registered(client: Client, name: str = "one") -> None:
    async def is_registered() -> bool:
        return await registered_by(client) == name

    await eventually(is_registered, f"the registration of {name}")


async def asked(running: Running, client: Client, namespace: str, result: str = "left-alone") -> None:
    """Until the API server really asks: it hears of a new configuration a moment after it was written."""

    async def is_asked() -> bool:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "probe", "uid": "probe", "controller": True}
        replica = {
            "metadata": {"generateName": "probe-", "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        }
        await client.create(PODS, namespace, replica, dry_run=True)
        labels = {"operation": "CREATE", "resource_kind": "Pod", "result": result}
        return running.counted("spotalis_webhook_requests_total", **labels) > 0

    await eventually(is_asked, "a question of the API server")


def template(name: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1m"}}}]},
    }


async def deploy(
    client: Client, namespace: str, name: str, replicas: int, spot: str, minimum: str = "0", **spec: Any
) -> None:
    body = {
        "metadata": {
            "name": name,
            "annotations": {ENABLED: "true", SPOT_PERCENTAGE: spot, MIN_ON_DEMAND: minimum},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name),
            "progressDeadlineSeconds": 600,
            **spec,
        },
    }
    await client.create(DEPLOYMENTS, namespace, body)


async def pods_of(client: Client, namespace: str, name: str) -> tuple[Pod, ...]:
    listing = await client.list(PODS, namespace, label_selector=f"app={name}")
    return tuple(pod for pod in listing.items if not pod.terminating and not pod.finished)


def split(pods: tuple[Pod, ...]) -> Counter[str]:
    return Counter(pod.annotations.get(CLASS, "unmarked") for pod in pods)


def wanted(replicas: int, percentage: int, minimum: int = 0) -> Mapping[str, int]:
    aim = target(replicas, Share(minimum, percentage))
    found = {"spot": aim.spot, "on-demand": aim.on_demand}
    return {name: number for name, number in found.items() if number}
