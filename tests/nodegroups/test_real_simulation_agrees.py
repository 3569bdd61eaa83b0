"""What `simulate` foretells is what happens: one scenario in virtual time and on the real control plane ends in the same state.

A workload is placed, a spot node is taken from under it, another is scaled down by its deletion costs, and a node group grows for a
third. Only the waiting differs: minutes there are seconds here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from plimsoll.config import Config
from plimsoll.config.nodegroups import NodeGroups
from plimsoll.config.providers import Providers
from plimsoll.controllers.build import controllers, observers
from plimsoll.controllers.deletion_cost.spec import PREFIX
from plimsoll.controllers.deletion_cost.values import COST
from plimsoll.controllers.nodegroups.types import NODE_GROUPS
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, condition_true, name_of, object_labels, terminating
from plimsoll.embedded_cluster.cluster import SPOT_NOTICE
from plimsoll.kube.client.client import Client
from plimsoll.kube.types.resources import DEPLOYMENTS, NODES
from plimsoll.providers.kwok.provider import KwokProvider
from plimsoll.providers.protocol import Provider
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import Operator, connect
from plimsoll.simulate.changes import parse_event, parse_set
from plimsoll.simulate.run import Scenario, run_simulation
from plimsoll.simulate.world import World
from plimsoll.webhook.service import placement_webhook
from tests.eventually import eventually
from tests.nodegroups.live import AT_ONCE, Stage
from tests.placement.live import asking, config
from tests.placement.webhook_cluster import Running, asked, registered
from tests.rbac.everywhere import kubeconfig_of_the_operator
from tools.controlplane.cluster import ControlPlane

LINES = tuple(f"1 zone={zone} class={kind} cpu=16" for zone in "abc" for kind in ("spot", "on-demand"))
GOING = LINES.index("1 zone=a class=spot cpu=16")
ENABLED = ("placement", "deletion-cost", "nodegroups")
ZONE, CLASS = "topology.kubernetes.io/zone", "karpenter.sh/capacity-type"
# Web is placed 60 : 40, also after it has lost a node; even has shrunk evenly; two fit on a machine of the group.
FORETOLD = {
    "web": {"spot": 6, "on-demand": 4},
    "even": {"a": 1, "b": 1, "c": 1},
    "batch": 4,
    "nodes of the group": 2,
}


def documents(namespace: str) -> list[Json]:
    group = {
        "minNodes": 0, "maxNodes": 3, "datacenterID": "dc-1", "resourceIdentifier": "cluster", "project": "p",
        "offeringIDs": ["small"], "kubernetesVersion": "v1.36.3", "provider": "kwok",
        "taints": [{"key": "only-for", "value": namespace, "effect": "NoSchedule"}],
    }  # fmt: skip
    meta = {"namespace": namespace}
    batch = {
        "tolerations": [{"key": "only-for", "operator": "Equal", "value": namespace, "effect": "NoSchedule"}],
        "nodeSelector": {"autoscaler.vpsie.com/managed": "true"},
    }
    here = {"nodeSelector": {"pool": namespace}}
    return [
        {"apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup", "metadata": {**meta, "name": "workers"},
         "spec": group},
        _deployment("web", meta, 10, "100m", asking(60, 2), here),
        _deployment("even", meta, 9, "100m", {PREFIX + "enabled": "true"}, here),
        _deployment("batch", meta, 4, "900m", {}, batch),
    ]  # fmt: skip


def _deployment(name: str, meta: Json, replicas: int, cpu: str, annotations: dict[str, str], pod: Json) -> Json:
    labels = {"app": name}
    requests = {"cpu": cpu, "memory": "64Mi"}
    containers = [{"name": "main", "image": "example.org/none", "resources": {"requests": requests}}]
    spec = {"terminationGracePeriodSeconds": 1, "containers": containers, **pod}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {**meta, "name": name, "annotations": annotations},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }  # fmt: skip


def state(nodes: Iterable[Json], pods: Iterable[Json]) -> Json:
    """What both clusters are asked for in the end, from their objects as they are."""
    by_name = {name_of(node): object_labels(node) for node in nodes}
    ready = [pod for pod in pods if condition_true(pod, "Ready") and not terminating(pod)]

    def count(app: str, label: str) -> dict[str, int]:
        where = [by_name[pod["spec"]["nodeName"]] for pod in ready if object_labels(pod).get("app") == app]
        return dict(Counter(labels.get(label, "") for labels in where))

    return {
        "web": count("web", CLASS),
        "even": count("even", ZONE),
        "batch": sum(object_labels(pod).get("app") == "batch" for pod in ready),
        "nodes of the group": sum("autoscaler.vpsie.com/nodegroup" in labels for labels in by_name.values()),
    }


def test_what_is_foretold() -> None:
    assert foretold() == FORETOLD


async def test_what_happens(control_plane: ControlPlane, stage: Stage, kwok_nodes: Callable[[str], list[str]]) -> None:
    assert await happened(control_plane, stage, kwok_nodes) == FORETOLD


def foretold() -> Json:
    changes = [parse_event("reclaim:node/spot-a-1@10m"), parse_set("deployment/default/even:replicas=3@30m")]
    lines = [f"{line} label:pool=default" for line in LINES]
    ended: dict[str, Any] = {}

    def observe(world: World, _: float) -> None:
        ended.update(state(world.cluster.all(kinds.NODES), world.cluster.all(kinds.PODS)))

    settings = Config(controllers=replace(Config().controllers, enabled=ENABLED))
    report = run_simulation(settings, Scenario(3600.0, changes, None, lines, documents("default")), seen=observe)
    assert report.violations == ()
    return ended


async def happened(control_plane: ControlPlane, stage: Stage, add_nodes: Callable[[str], list[str]]) -> Json:
    names = [add_nodes(f"{line} label:pool={stage.namespace}")[0] for line in LINES]
    async with operating(control_plane, stage.namespace) as client:
        for document in documents(stage.namespace):
            await client.create(
                NODE_GROUPS if document["kind"] == "NodeGroup" else DEPLOYMENTS, stage.namespace, document
            )

        def now() -> Json:
            nodes = control_plane.request("GET", "/api/v1/nodes")["items"]
            pods = control_plane.request("GET", f"/api/v1/namespaces/{stage.namespace}/pods")["items"]
            return state([node for node in nodes if _ours(node, stage.namespace)], pods)

        async def reaches(**wanted: Any) -> None:
            async def is_so() -> bool:
                found = now()
                await asyncio.sleep(0.2)
                return all(found[key] == value for key, value in wanted.items())

            try:
                await eventually(is_so, f"{wanted}", seconds=120)
            except AssertionError as error:
                error.add_note(f"in the end: {now()}")
                raise

        await reaches(web=FORETOLD["web"], batch=4)
        await client.patch(NODES, "", names[GOING], {"spec": {"taints": [SPOT_NOTICE]}})

        async def is_empty() -> bool:
            return not [pod for pod in await stage.pods("web") if pod.spec.node_name == names[GOING]]

        await eventually(is_empty, "web has left the node that goes", seconds=120)
        control_plane.remove_nodes([names[GOING]])
        await reaches(web=FORETOLD["web"])

        async def is_ranked() -> bool:
            pods = await stage.pods("even")
            return len(pods) == 9 and all(pod.ready and COST in pod.annotations for pod in pods)

        await eventually(is_ranked, "every pod of even has its value", seconds=120)
        await stage.scale("even", 3)
        await reaches(**FORETOLD)
        return now()


def _ours(node: Json, namespace: str) -> bool:
    taints = at(node, "spec", "taints", default=[])
    return object_labels(node).get("pool") == namespace or any(taint.get("value") == namespace for taint in taints)


@asynccontextmanager
async def operating(cluster: ControlPlane, namespace: str) -> AsyncIterator[Client]:
    """The operator with three controllers and its webhook, as `plimsoll run` has it."""
    home = f"{namespace}-home"  # the webhook passes over the operator's own namespace
    quick = NodeGroups(poll_interval=timedelta(seconds=1), unschedulable_pod_grace=timedelta(0))
    settings = replace(
        config(home, namespace, enabled=ENABLED), nodegroups=quick, providers=Providers(enabled=("kwok",), kwok=AT_ONCE)
    )
    metrics, stop, clock = Metrics(), asyncio.Event(), RealClock()
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": home}})
    made = controllers(settings)
    async with (
        connect(settings, metrics, kubeconfig=kubeconfig_of_the_operator(cluster, settings), context=None) as client,
        connect(settings, Metrics(), kubeconfig=Path(cluster.kubeconfig), context=None) as person,
    ):
        provider = KwokProvider(AT_ONCE, client, home, clock)
        providers: dict[str, Provider] = {"kwok": provider}
        operator = Operator(
            settings, client, made, clock=clock, metrics=metrics, name="one", providers=providers,
            observers=observers(settings, made, client, providers, clock),
        )  # fmt: skip
        async with placement_webhook(settings, made, client, operator, clock=clock, identity="one") as server:
            life = asyncio.create_task(operator.run(stop))
            try:
                await registered(person, "one")
                await asked(Running(operator, server, client, stop), person, namespace)
                yield person
            finally:
                stop.set()
                await asyncio.gather(life, return_exceptions=True)
                await provider.close()
                cluster.request("DELETE", f"/api/v1/namespaces/{home}")
