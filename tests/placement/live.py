"""Workloads on spot and on-demand nodes of a real control plane, and the operator with its webhook beside them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from plimsoll.config import (
    Config,
    Controllers,
    DisruptionLimitsConfig,
    Kubernetes,
    OperatorConfig,
    Placement,
    Webhook,
    WorkloadTiming,
)
from plimsoll.controllers.build import controllers
from plimsoll.controllers.placement.capacity_class import ClassRules
from plimsoll.controllers.placement.spec import ENABLED, MIN_ON_DEMAND, SPOT_PERCENTAGE
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.kube.client.client import Client
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import BUDGETS, DEPLOYMENTS, NODES, PODS, STATEFULSETS
from plimsoll.runtime.clock import Clock, RealClock
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import Operator, connect
from plimsoll.webhook.service import placement_webhook
from tests.eventually import eventually
from tests.faults.history import History, Revision, State
from tests.placement.webhook_cluster import ELECTION, Running, asked, registered, selector, template
from tests.rbac.everywhere import kubeconfig_of_the_operator
from tools.controlplane.cluster import ControlPlane

SPOT, ON_DEMAND = CapacityClass.SPOT, CapacityClass.ON_DEMAND
RULES = ClassRules()
# A test of a hundred moves must not wait for tomorrow; what limits do is shown without a cluster.
MANY = DisruptionLimitsConfig(per_workload=1000, per_cluster=1000)


def config(
    home: str,
    namespace: str,
    *,
    cooldown: timedelta = timedelta(0),
    enabled: tuple[Any, ...] = ("placement",),
    limits: DisruptionLimitsConfig = MANY,
    **placement: Any,
) -> Config:
    moving = {"max_migrations": 1000, "max_migrations_per_cluster": 1000, **placement}
    moving.setdefault("namespace_selector", selector(namespace))
    timing = WorkloadTiming(cooldown_period=cooldown, disruption_retry_interval=timedelta(seconds=1))
    return Config(
        operator=OperatorConfig(namespace=home, audit_log="", leader_election=ELECTION, disruption_limits=limits),
        controllers=Controllers(enabled=enabled, workload_timing=timing),
        placement=Placement(**moving),
        kubernetes=Kubernetes(qps=1000, burst=1000),
        webhook=Webhook(mode="url", port=0, timeout=timedelta(seconds=30)),
    )


@asynccontextmanager
async def operating(
    cluster: ControlPlane, namespace: str, settings: Config, name: str = "one", *, clock: Clock | None = None
) -> AsyncIterator[Running]:
    """The operator as `plimsoll run` has it, asked by the API server from the first moment on."""
    metrics, stop, time = Metrics(), asyncio.Event(), clock or RealClock()
    made = controllers(settings)
    async with (
        connect(settings, metrics, kubeconfig=kubeconfig_of_the_operator(cluster, settings), context=None) as client,
        connect(settings, Metrics(), kubeconfig=Path(cluster.kubeconfig), context=None) as person,
    ):
        operator = Operator(settings, client, made, clock=time, metrics=metrics, name=name)
        async with placement_webhook(settings, made, client, operator, clock=time, identity=name) as server:
            life = asyncio.create_task(operator.run(stop))
            running = Running(operator, server, client, stop)
            try:
                await registered(person, name)
                await asked(running, person, namespace)
                yield running
            finally:
                stop.set()
                await asyncio.gather(life, return_exceptions=True)


def evictions(running: Running) -> float:
    return running.counted("plimsoll_actions_total", controller="placement", action="Evict", result="done")


def blocked(running: Running, code: str) -> bool:
    return running.counted("plimsoll_blocked", controller="placement", code=code) > 0


def asking(spot: int | str, minimum: int = 0) -> dict[str, str]:
    return {ENABLED: "true", SPOT_PERCENTAGE: f"{spot}%", MIN_ON_DEMAND: str(minimum)}


class Workload:
    """A Deployment or StatefulSet of the test's own."""

    def __init__(self, client: Client, namespace: str, name: str, *, stateful: bool = False) -> None:
        self.client, self.namespace, self.name = client, namespace, name
        self.kind = STATEFULSETS if stateful else DEPLOYMENTS

    async def create(self, replicas: int, annotations: Mapping[str, str], **spec: Any) -> Workload:
        body = {
            "metadata": {"name": self.name, "annotations": dict(annotations)},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": self.name}},
                "template": template(self.name),
                **spec,
            },
        }
        await self.client.create(self.kind, self.namespace, body)
        return self

    async def patch(self, body: Mapping[str, Any]) -> None:
        await self.client.patch(self.kind, self.namespace, self.name, body)

    async def annotate(self, annotations: Mapping[str, str | None]) -> None:
        await self.patch({"metadata": {"annotations": dict(annotations)}})

    async def scale(self, replicas: int) -> None:
        await self.patch({"spec": {"replicas": replicas}})

    async def guard(self, max_unavailable: int | str) -> None:
        body = {
            "metadata": {"name": self.name},
            "spec": {"maxUnavailable": max_unavailable, "selector": {"matchLabels": {"app": self.name}}},
        }
        await self.client.create(BUDGETS, self.namespace, body)

    async def pods(self) -> tuple[Pod, ...]:
        """The active ones."""
        listing = await self.client.list(PODS, self.namespace, label_selector=f"app={self.name}")
        return tuple(pod for pod in listing.items if not pod.terminating and not pod.finished)

    async def split(self) -> dict[CapacityClass, int]:
        """Ready pods by the class of the node they run on."""
        nodes = {node.name: RULES.of_labels(node.labels) for node in (await self.client.list(NODES)).items}
        found = Counter(nodes[pod.spec.node_name] for pod in await self.pods() if pod.ready)
        return {SPOT: found[SPOT], ON_DEMAND: found[ON_DEMAND]}

    async def settled(self, spot: int, on_demand: int, *, seconds: float = 120.0) -> None:
        """Every pod is ready, on the class where it should be, and none too many is there."""

        async def is_settled() -> bool:
            pods = await self.pods()
            return len(pods) == spot + on_demand and await self.split() == {SPOT: spot, ON_DEMAND: on_demand}

        await eventually(is_settled, f"{spot} of {self.name} on spot and {on_demand} on-demand", seconds=seconds)


def pod_states(history: History, name: str) -> Iterator[tuple[Revision, list[dict[str, Any]]]]:
    """The pods of one workload after each revision."""

    def of(state: State) -> list[dict[str, Any]]:
        return [obj for obj in state.values() if obj["metadata"].get("labels", {}).get("app") == name]

    for revision, state in history.states():
        yield revision, of(state)


def is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


async def cordon(client: Client, names: list[str], *, closed: bool) -> None:
    for name in names:
        await client.patch(NODES, "", name, {"spec": {"unschedulable": closed}})
