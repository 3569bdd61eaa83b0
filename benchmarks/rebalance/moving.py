"""W3: a hundred replicas from 70 % to 30 % on a real control plane, as fast as a budget and the cooldown allow."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

from benchmarks.report import Figure, Report, progress
from plimsoll.config import (
    Config,
    Controllers,
    DisruptionLimitsConfig,
    LeaderElectionConfig,
    OperatorConfig,
    Placement,
    Webhook,
    WorkloadTiming,
)
from plimsoll.controllers.build import controllers
from plimsoll.controllers.placement.capacity_class import ClassRules
from plimsoll.controllers.placement.spec import ENABLED, SPOT_PERCENTAGE
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.kube.client.client import Client
from plimsoll.kube.types.resources import BUDGETS, DEPLOYMENTS, NODES, PODS
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import Operator, connect
from plimsoll.webhook.service import placement_webhook
from tools.controlplane.cluster import ControlPlane

REPLICAS = 100
HOME = "plimsoll-system"
# What Spotalis was measured at on two cores, whatever its settings.
SPOTALIS_PODS_A_MINUTE = 5.9
_PATIENCE_SECONDS = 900.0


def measure() -> Report:
    with ControlPlane.start(nodes=["2 zone=a class=spot pods=110", "2 zone=a class=on-demand pods=110"]) as cluster:
        cluster.kubectl("create", "namespace", HOME)
        figures = [
            asyncio.run(_moving(cluster, percentage=percentage, cooldown=timedelta(seconds=cooldown)))
            for percentage, cooldown in ((0, 0), (0, 1), (10, 0))
        ]
    return Report(
        "rebalance W3",
        f"{REPLICAS} replicas from 70 % to 30 % on spot, 40 moves, under a budget of 10 %",
        figures,
        peer="Spotalis",
    )


async def _moving(cluster: ControlPlane, *, percentage: int, cooldown: timedelta) -> Figure:
    kind = f"{percentage} % at a time" if percentage else "one at a time"
    what = f"{kind}, cooldown {cooldown.seconds} s"
    progress(what)
    many = 10_000
    config = Config(
        operator=OperatorConfig(
            namespace=HOME,
            audit_log="",
            leader_election=LeaderElectionConfig(enabled=False),
            disruption_limits=DisruptionLimitsConfig(many, many),
        ),
        controllers=Controllers(enabled=("placement",), workload_timing=WorkloadTiming(cooldown_period=cooldown)),
        placement=Placement(moving_percentage=percentage, max_migrations=many, max_migrations_per_cluster=many),
        webhook=Webhook(mode="url", port=0, timeout=timedelta(seconds=30)),
    )
    made, metrics, stop, clock = controllers(config), Metrics(), asyncio.Event(), RealClock()
    name = f"web-{percentage}-{cooldown.seconds}"
    async with connect(config, metrics, kubeconfig=Path(cluster.kubeconfig), context=None) as client:
        operator = Operator(config, client, made, clock=clock, metrics=metrics, name=name)
        async with placement_webhook(config, made, client, operator, clock=clock, identity=name):
            life = asyncio.create_task(operator.run(stop))
            try:
                await asyncio.sleep(3)  # until the API server has heard of the webhook
                await _deploy(client, name)
                await _until(client, name, 70)
                begun = time.monotonic()
                body = {"metadata": {"annotations": {SPOT_PERCENTAGE: "30%"}}}
                await client.patch(DEPLOYMENTS, "default", name, body)
                await _until(client, name, 30)
                minutes = (time.monotonic() - begun) / 60
                await client.patch(DEPLOYMENTS, "default", name, {"spec": {"replicas": 0}})
            finally:
                stop.set()
                await asyncio.gather(life, return_exceptions=True)
    return Figure(f"moves, {what}", "/min", 40 / minutes, SPOTALIS_PODS_A_MINUTE)


async def _deploy(client: Client, name: str) -> None:
    labels = {"app": name}
    spec = {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1m"}}}]}
    await client.create(
        DEPLOYMENTS,
        "default",
        {
            "metadata": {"name": name, "annotations": {ENABLED: "true", SPOT_PERCENTAGE: "70%"}},
            "spec": {
                "replicas": REPLICAS,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        },
    )
    budget = {"maxUnavailable": "10%", "selector": {"matchLabels": labels}}
    await client.create(BUDGETS, "default", {"metadata": {"name": name}, "spec": budget})


async def _until(client: Client, name: str, spot: int) -> None:
    rules, deadline = ClassRules(), time.monotonic() + _PATIENCE_SECONDS
    nodes = {node.name: rules.of_labels(node.labels) for node in (await client.list(NODES)).items}
    while time.monotonic() < deadline:
        pods = (await client.list(PODS, "default", label_selector=f"app={name}")).items
        split = Counter(nodes[pod.spec.node_name] for pod in pods if pod.ready and not pod.terminating)
        if split[CapacityClass.SPOT] == spot and split.total() == REPLICAS:
            return
        await asyncio.sleep(0.2)
    raise TimeoutError(f"{dict(split)} after {_PATIENCE_SECONDS:.0f} s, {spot} on spot are wanted")
