"""Node groups on a real control plane: the operator with its controller, KWOK nodes as machines, and pods that wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from plimsoll.config import (
    Config,
    Controllers,
    DisruptionLimitsConfig,
    Kubernetes,
    LeaderElectionConfig,
    OperatorConfig,
)
from plimsoll.config.nodegroups import NodeGroups
from plimsoll.config.providers import Kwok, KwokOffering, Providers
from plimsoll.controllers.build import controllers, observers
from plimsoll.controllers.nodegroups.controller import NodeGroupController
from plimsoll.controllers.nodegroups.types import NODE_GROUPS, VPSIE_NODES, NodeGroup, VPSieNode
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import NotFound
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.events import Event
from plimsoll.kube.types.resources import DEPLOYMENTS, EVENTS, NODES, PODS
from plimsoll.providers.kwok.provider import KwokProvider
from plimsoll.providers.protocol import Provider
from plimsoll.providers.registry import Setup
from plimsoll.runtime.clock import Clock, RealClock
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import Operator, connect
from tests.clocks import HurriedClock
from tests.eventually import eventually
from tests.rbac.everywhere import kubeconfig_of_the_operator
from tools.controlplane.cluster import ControlPlane

ELECTION = LeaderElectionConfig(
    lease_duration=timedelta(seconds=15), renew_deadline=timedelta(seconds=10), retry_period=timedelta(milliseconds=100)
)
# Long enough for a busy machine to renew it in, short enough to wait for its end.
SHORT_LEASE = LeaderElectionConfig(
    lease_duration=timedelta(seconds=6), renew_deadline=timedelta(seconds=4), retry_period=timedelta(milliseconds=200)
)
OFFERINGS = (
    KwokOffering("small", cpu="2", memory="8Gi", price=0.05),
    KwokOffering("large", cpu="8", memory="32Gi", price=0.2),
)
AT_ONCE = Kwok(create_delay=timedelta(0), delete_delay=timedelta(0), offerings=OFFERINGS)


def config(home: str, *, election: LeaderElectionConfig = ELECTION, **section: Any) -> Config:
    quick = {
        "poll_interval": timedelta(milliseconds=300),
        "unschedulable_pod_grace": timedelta(0),
        "backoff": timedelta(seconds=2),
        "max_backoff": timedelta(seconds=4),
        **section,
    }
    return Config(
        operator=OperatorConfig(
            namespace=home, audit_log="", leader_election=election,
            disruption_limits=DisruptionLimitsConfig(per_workload=1000, per_cluster=1000),
        ),
        controllers=Controllers(enabled=("nodegroups",)),
        nodegroups=NodeGroups(**quick),
        providers=Providers(enabled=("kwok",)),
        kubernetes=Kubernetes(qps=1000, burst=1000),
    )  # fmt: skip


class Running:
    def __init__(
        self, config: Config, operator: Operator, controller: NodeGroupController, life: asyncio.Task[Any]
    ) -> None:
        self.config, self.operator, self.controller, self.life = config, operator, controller, life
        self.crashed = asyncio.Event()  # set by whoever lets it crash

    def counted(self, name: str, **labels: str) -> float:
        return self.operator.metrics.registry.get_sample_value(name, labels) or 0.0


def operating(
    cluster: ControlPlane, settings: Config, *, kubeconfig: Path | None = None, **changed: Any
) -> AbstractAsyncContextManager[Running]:
    return operating_with(kubeconfig or kubeconfig_of_the_operator(cluster, settings), settings, **changed)


@asynccontextmanager
async def operating_with(
    kubeconfig: Path,
    settings: Config,
    *,
    name: str = "one",
    clock: Clock | None = None,
    kwok: Kwok = AT_ONCE,
    provider: Callable[[Provider], Provider] = lambda made: made,
    more_providers: Callable[[Setup], Mapping[str, Provider]] = lambda _: {},
    stop: asyncio.Event | None = None,
    **changed: Any,
) -> AsyncIterator[Running]:
    """The operator as `plimsoll run` has it, with settings that no configuration has shortened by `changed`."""
    # Who renews a lease sleeps in between, and must not be hurried.
    usual = RealClock() if settings.operator.leader_election.enabled else HurriedClock()
    metrics, stop, time = Metrics(), stop or asyncio.Event(), clock or usual
    all_of_them = controllers(settings)
    (controller,) = (one for one in all_of_them if isinstance(one, NodeGroupController))
    quick = {"taint_wait": timedelta(milliseconds=500), "retry_interval": timedelta(milliseconds=300), **changed}
    controller._settings = replace(controller._settings, **quick)
    async with connect(settings, metrics, kubeconfig=kubeconfig, context=None) as client:
        home = settings.operator.namespace
        made = KwokProvider(kwok, client, home, time)
        others = more_providers(Setup(settings.providers, {}, client, home, time))
        providers: dict[str, Provider] = {"kwok": provider(made), **others}
        operator = Operator(
            settings, client, all_of_them, clock=time, metrics=metrics, name=name, providers=providers,
            observers=observers(settings, all_of_them, client, providers, time),
        )  # fmt: skip
        life = asyncio.create_task(operator.run(stop))
        try:
            yield Running(settings, operator, controller, life)
        finally:
            stop.set()
            await asyncio.gather(life, return_exceptions=True)
            for one in (made, *others.values()):
                await one.close()


class Stage:
    """A namespace with groups and workloads of the test's own: its nodes carry a taint that nobody else's pods tolerate."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client, self.namespace = client, namespace

    # ── what people do ───────────────────────────────────────────────────────────────────────────────────────────────

    async def group(self, name: str = "workers", **spec: Any) -> NodeGroup:
        body = {
            "metadata": {"name": name},
            "spec": {
                "minNodes": 0, "maxNodes": 5, "datacenterID": "dc-1", "resourceIdentifier": "cluster", "project": "p",
                "offeringIDs": ["small"], "kubernetesVersion": "v1.36.3", "provider": "kwok",
                "taints": [{"key": "only-for", "value": self.namespace, "effect": "NoSchedule"}], **spec,
            },
        }  # fmt: skip
        return await self.client.create(NODE_GROUPS, self.namespace, body)

    async def change(self, name: str = "workers", **spec: Any) -> None:
        await self.client.patch(NODE_GROUPS, self.namespace, name, {"spec": spec})

    async def workload(
        self, name: str, replicas: int, *, cpu: str = "900m", pod: Mapping[str, Any] | None = None, **meta: Any
    ) -> None:
        spec = {
            "tolerations": [{"key": "only-for", "operator": "Equal", "value": self.namespace, "effect": "NoSchedule"}],
            "nodeSelector": {"autoscaler.vpsie.com/managed": "true"},
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {"name": "main", "image": "example.org/none", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
            ],
            **(pod or {}),
        }
        labels = {"app": name}
        body = {
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels, **meta}, "spec": spec},
            },
        }
        await self.client.create(DEPLOYMENTS, self.namespace, body)

    async def scale(self, name: str, replicas: int) -> None:
        await self.client.patch(DEPLOYMENTS, self.namespace, name, {"spec": {"replicas": replicas}})

    # ── what comes of it ─────────────────────────────────────────────────────────────────────────────────────────────

    async def members(self) -> list[VPSieNode]:
        return list((await self.client.list(VPSIE_NODES, self.namespace)).items)

    async def nodes(self) -> list[Node]:
        own = {member.node_name for member in await self.members()}
        found = (await self.client.list(NODES, label_selector="autoscaler.vpsie.com/managed=true")).items
        return [
            node
            for node in found
            if node.name in own or any(taint.value == self.namespace for taint in node.spec.taints)
        ]

    async def pods(self, name: str = "") -> list[Pod]:
        listing = await self.client.list(PODS, self.namespace, label_selector=f"app={name}" if name else "")
        return [pod for pod in listing.items if not pod.terminating and not pod.finished]

    async def group_now(self, name: str = "workers") -> NodeGroup:
        return await self.client.get(NODE_GROUPS, self.namespace, name)

    async def settled(self, nodes: int, *, pods: int | None = None, seconds: float = 90.0) -> None:
        """So many nodes are ready and none comes or goes; every pod runs."""

        async def is_settled() -> bool:
            members = await self.members()
            there = await self.nodes()
            running = [pod for pod in await self.pods() if pod.ready]
            return (
                len(members) == len(there) == nodes
                and all(member.phase == "Ready" for member in members)
                and all(node.ready for node in there)
                and (pods is None or len(running) == pods == len(await self.pods()))
            )

        try:
            await eventually(is_settled, f"{nodes} nodes and {pods} pods", seconds=seconds)
        except AssertionError as error:
            error.add_note(f"members: {[(m.name, m.phase, m.status.last_error) for m in await self.members()]}")
            error.add_note(f"pods: {[(p.name, p.spec.node_name, p.status.phase) for p in await self.pods()]}")
            raise

    async def events(self, reason: str) -> Sequence[Event]:
        return [one for one in (await self.client.list(EVENTS, self.namespace)).items if one.reason == reason]

    async def event(self, reason: str, saying: str = "") -> Event:
        """The first one that says so; a group may be told of several things under one reason."""

        async def told() -> Event | None:
            return next((one for one in await self.events(reason) if saying in one.note), None)

        found: Event = await eventually(told, f"an event {reason}: {saying}")
        return found

    async def clear(self) -> None:
        """Leave nothing behind: finalizers would hold the namespace, and nodes would draw others' pods."""
        for group in (await self.client.list(NODE_GROUPS, self.namespace)).items:
            await self._gone(self.client.delete(NODE_GROUPS, self.namespace, group.name, uid=group.uid))
        for node in await self.nodes():
            await self._gone(self.client.delete(NODES, "", node.name, uid=node.uid))
        for member in await self.members():
            patch = self.client.patch(VPSIE_NODES, self.namespace, member.name, {"metadata": {"finalizers": None}})
            await self._gone(patch)
            await self._gone(self.client.delete(VPSIE_NODES, self.namespace, member.name, uid=member.uid))

    @staticmethod
    async def _gone(call: Any) -> None:
        try:
            await call
        except NotFound:
            return
