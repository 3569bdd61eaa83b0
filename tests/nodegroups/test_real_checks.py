"""Every safety check on the real control plane: it holds a node, people can read why in four places, and lifted it holds no more.

One cluster, one operator, a group with one node for each check: all of them are held at the same time, then all let go.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from plimsoll.config import Allocation, Controllers
from plimsoll.controllers.allocation.conditions import Proposal
from plimsoll.controllers.allocation.container_nodes import WEKA_CONTAINERS
from plimsoll.controllers.allocation.crd import crd
from plimsoll.controllers.allocation.lease import lease_name
from plimsoll.controllers.nodegroups.patches import DRAIN_TAINT
from plimsoll.controllers.nodegroups.types import VPSIE_NODES
from plimsoll.explain.records import DecisionExplanation
from plimsoll.explain.targets import Explainer
from plimsoll.kube.types.core import Node
from plimsoll.kube.types.resources import BUDGETS, DEPLOYMENTS, LEASES, NODES, PODS
from plimsoll.runtime.clock import RealClock
from tests.eventually import eventually
from tests.kinds import served
from tests.nodegroups.live import Running, Stage, config, operating
from tools.controlplane.cluster import ControlPlane

QUICK = {"underutilizationDuration": "1s", "cooldownSeconds": 1}
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
DISABLED = "autoscaler.vpsie.com/scale-down"
CASE, EXTRA, ROW, ZONE = "story/case", "story/extra", "story/row", "topology.kubernetes.io/zone"

Act = Callable[["Story", "Case"], Awaitable[None]]


async def _nothing(story: Story, case: Case) -> None:
    pass


@dataclass(frozen=True)
class Case:
    """What holds a node: how it is put on before the node may go, and how it is taken off."""

    name: str
    code: str
    lift: Act
    put: Act = _nothing
    pods: int = 2
    pod: dict[str, Any] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)  # of the Deployment
    group: dict[str, Any] = field(default_factory=dict)
    nodes: int = 1
    home: str = ""  # a namespace other than the story's
    elsewhere: str = CASE  # the label by which pods find the node to which all could move


@dataclass
class Story:
    stage: Stage
    shelter: str = ""  # the node to which all pods could move

    async def nodes(self, case: Case) -> list[Node]:
        found = (await self.stage.client.list(NODES, label_selector=f"{CASE}={case.name}")).items
        own = [node for node in found if any(taint.value == self.stage.namespace for taint in node.spec.taints)]
        return sorted(own, key=lambda node: node.name)

    async def annotate_pods(self, case: Case, **annotations: str | None) -> None:
        for pod in await self.stage.pods(case.name):
            await self.stage.client.patch(PODS, pod.namespace, pod.name, {"metadata": {"annotations": annotations}})

    async def annotate_nodes(self, nodes: list[Node], **annotations: str | None) -> None:
        for node in nodes:
            await self.stage.client.patch(NODES, "", node.name, {"metadata": {"annotations": annotations}})

    async def budget(self, case: Case, allowed: int) -> None:
        home = case.home or self.stage.namespace
        spec = {"maxUnavailable": allowed, "selector": {"matchLabels": {"app": self.app(case)}}}
        await self.stage.client.create(BUDGETS, home, {"metadata": {"name": self.app(case)}, "spec": spec})

    def app(self, case: Case) -> str:
        return f"{case.name}-{self.stage.namespace}" if case.home else case.name


# ── the checks ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def _strict_budget(story: Story, case: Case) -> None:
    await story.budget(case, 0)


async def _lenient_budget(story: Story, case: Case) -> None:
    await story.stage.client.patch(BUDGETS, story.stage.namespace, case.name, {"spec": {"maxUnavailable": 1}})


async def _a_budget(story: Story, case: Case) -> None:
    await story.budget(case, 1)


def _annotated(**annotations: str | None) -> Act:
    async def act(story: Story, case: Case) -> None:
        await story.annotate_pods(case, **annotations)

    return act


def _group(**spec: Any) -> Act:
    async def act(story: Story, case: Case) -> None:
        await story.stage.change(case.name, **spec)

    return act


async def _node_says_no(story: Story, case: Case) -> None:
    await story.annotate_nodes(await story.nodes(case), **{DISABLED: "disabled"})


async def _node_says_nothing(story: Story, case: Case) -> None:
    await story.annotate_nodes(await story.nodes(case), **{DISABLED: None})


async def _shelter_fits(story: Story, case: Case) -> None:
    body = {"metadata": {"labels": {case.elsewhere: case.name}}}
    await story.stage.client.patch(NODES, "", story.shelter, body)


async def _shelter_in_a_row(story: Story, case: Case) -> None:
    await story.stage.client.patch(NODES, "", story.shelter, {"metadata": {"labels": {ROW: "one"}}})


async def _keeper_at_the_shelter(story: Story, case: Case) -> None:
    """A pod beside which the case's own will not run."""
    await story.stage.client.create(
        PODS, story.stage.namespace, _bare("keeper", story, {}, {"nodeName": story.shelter})
    )


async def _keeper_goes(story: Story, case: Case) -> None:
    keeper = await story.stage.client.get(PODS, story.stage.namespace, "keeper")
    await story.stage.client.delete(PODS, story.stage.namespace, "keeper", uid=keeper.uid, grace_seconds=0)


async def _a_lone_pod(story: Story, case: Case) -> None:
    (node,) = await story.nodes(case)
    body = _bare(case.name, story, {"app": case.name}, {"nodeName": node.name})
    await story.stage.client.create(PODS, story.stage.namespace, body)


async def _another_replica(story: Story, case: Case) -> None:
    await story.stage.scale(case.name, 2)


async def _a_container_there(story: Story, case: Case) -> None:
    (node,) = await story.nodes(case)
    body = {"metadata": {"name": case.name}, "spec": {"nodeAffinity": node.name, "mode": "drive", "numDrives": 1}}
    await story.stage.client.create(WEKA_CONTAINERS, story.stage.namespace, body)


async def _a_proposal_there(story: Story, case: Case) -> None:
    """Of another allocator, which holds the node's lease: ours may not clear it."""
    (node,) = await story.nodes(case)
    lease = {"holderIdentity": "another", "leaseDurationSeconds": 3600}
    body = {"metadata": {"name": lease_name(node.name)}, "spec": lease}
    await story.stage.client.create(LEASES, story.stage.namespace, body)
    await story.stage.client.create(
        WEKA_CONTAINERS, story.stage.namespace, {"metadata": {"name": case.name}, "spec": {}}
    )
    condition = {
        "type": "AllocationProposed", "status": "True", "reason": "Proposed", "message": Proposal(node.name, "1").text,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    body = {"status": {"conditions": [condition]}}
    await story.stage.client.patch(WEKA_CONTAINERS, story.stage.namespace, case.name, body, subresource="status")


async def _no_container(story: Story, case: Case) -> None:
    found = await story.stage.client.get(WEKA_CONTAINERS, story.stage.namespace, case.name)
    await story.stage.client.delete(WEKA_CONTAINERS, story.stage.namespace, case.name, uid=found.uid)


async def _one_alone_in_its_zone(story: Story, case: Case) -> None:
    nodes = await story.nodes(case)
    for node, zone in zip(nodes, "abb", strict=True):
        await story.stage.client.patch(NODES, "", node.name, {"metadata": {"labels": {ZONE: zone}}})
    await story.annotate_nodes(nodes[1:], **{DISABLED: "disabled"})


async def _unmanaged(story: Story, case: Case) -> None:
    body = {"metadata": {"annotations": {"spotalis.io/enabled": None}}}
    await story.stage.client.patch(DEPLOYMENTS, story.stage.namespace, case.name, body)


APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"story": "keeper"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
MANAGED = {"spotalis.io/enabled": "true", "spotalis.io/min-on-demand": "2", "spotalis.io/spot-percentage": "50%"}
IN_ROWS = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": ROW,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "spread"}},
        }
    ]
}
LOCAL = [{"name": "cache", "emptyDir": {}}, {"name": "disk", "hostPath": {"path": "/data"}}]

CASES = (
    Case("budget", "NotEnoughPdb", _lenient_budget, _strict_budget),
    Case("storage", "LocalStorageRequested", _annotated(**{SAFE_VOLUMES: "cache,disk"}), pod={"volumes": LOCAL}),
    Case("system", "UnmovableKubeSystemPod", _a_budget, home="kube-system"),
    Case("affinity", "NoPlaceToMovePods", _shelter_fits, elsewhere=EXTRA),
    Case("anti-affinity", "NoPlaceToMovePods", _keeper_goes, _keeper_at_the_shelter, pod={"affinity": APART}),
    Case("spread", "NoPlaceToMovePods", _shelter_in_a_row, pod=IN_ROWS, group={"labels": {CASE: "spread", ROW: "one"}}),
    Case("minimum", "NodeGroupMinSizeReached", _group(minNodes=0), group={"minNodes": 1}),
    Case("cooldown", "CooldownActive", _group(scaleDownCooldown="1s"), group={"scaleDownCooldown": "1h"}),
    Case("node-says-no", "ScaleDownDisabledAnnotation", _node_says_nothing, _node_says_no),
    Case("pod-says-no", "NotSafeToEvictAnnotation", _annotated(**{SAFE: None}), meta={"annotations": {SAFE: "false"}}),
    Case("lone", "NotReplicated", _annotated(**{SAFE: "true"}), _a_lone_pod, pods=0),
    Case("last", "LastReady", _another_replica, pods=1),
    Case("container", "AllocationOnNode", _no_container, _a_container_there, pods=0),
    Case("proposal", "AllocationOnNode", _no_container, _a_proposal_there, pods=0),
    Case("zones", "ZoneBalance", _node_says_nothing, _one_alone_in_its_zone, pods=0, nodes=3),
    Case("on-demand", "MinimumOnDemand", _unmanaged, annotations=MANAGED),
)


# ── the story ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def storage_kind(control_plane: ControlPlane) -> Iterator[None]:
    with served(control_plane, [crd()]):
        yield


@pytest.fixture
async def story(stage: Stage) -> AsyncIterator[Story]:
    one = Story(stage)
    yield one
    for case in CASES:
        for kind in (DEPLOYMENTS, BUDGETS) if case.home else ():
            await stage._gone(_delete(stage, kind, case.home, one.app(case)))
    for container in (await stage.client.list(WEKA_CONTAINERS, stage.namespace)).items:
        body = {"metadata": {"finalizers": None}}
        await stage._gone(stage.client.patch(WEKA_CONTAINERS, stage.namespace, container.name, body))


async def test_each_check_holds_and_holds_no_more(
    control_plane: ControlPlane, storage_kind: None, story: Story
) -> None:
    stage = story.stage
    settings = replace(
        config(stage.namespace, max_parallel_drains=len(CASES)),
        controllers=Controllers(enabled=("nodegroups", "placement", "allocation")),
        allocation=Allocation(namespace=stage.namespace),
    )
    with capture_logs() as logs:
        async with operating(control_plane, settings) as running:
            await _set_the_stage(story)
            for case in CASES:
                await stage.change(case.name, desiredNodes=None)
            held = {case.name: await _held(story, case, running) for case in CASES}
            for case in CASES:
                await case.lift(story, case)
            await eventually(lambda: _all_gone(story), "every node goes once nothing holds it", seconds=180)
            await stage.settled(1)
            ready = {pod.name.rsplit("-", 2)[0] for pod in await stage.pods() if pod.ready}
            assert ready >= {case.name for case in CASES if case.pods and not case.home}, "they moved to the shelter"
    warned = [str(line["event"]) for line in logs if line.get("code") == "ScaleDownBlocked"]
    for name, nodes in held.items():
        assert any(f"node {node} cannot be removed: " in text for node in nodes for text in warned), (
            f"{name} is in no log"
        )


async def _set_the_stage(story: Story) -> None:
    """Nobody can go to the shelter before the pods are where the story wants them."""
    stage = story.stage
    off = {"enabled": False}
    await stage.group("shelter", minNodes=1, offeringIDs=["large"], labels={CASE: "shelter"}, scaleDownPolicy=off)
    await stage.settled(1)
    (shelter,) = await stage.nodes()
    story.shelter = shelter.name
    await stage.client.patch(NODES, "", shelter.name, {"spec": {"unschedulable": True}})
    for case in CASES:
        spec = {"maxNodes": case.nodes, "desiredNodes": case.nodes, "scaleDownPolicy": QUICK, **case.group}
        await stage.group(case.name, **{"labels": {CASE: case.name}, **spec})
        if case.pods:
            await _workload(story, case)
    await stage.settled(1 + sum(case.nodes for case in CASES))
    await eventually(lambda: _all_run(story), "every pod runs where it should")
    for case in CASES:
        await case.put(story, case)
    await stage.client.patch(NODES, "", shelter.name, {"spec": {"unschedulable": None}})


async def _workload(story: Story, case: Case) -> None:
    app, home = story.app(case), case.home or story.stage.namespace
    places = [CASE, "shelter"] if case.elsewhere == CASE else []
    terms = [{"matchExpressions": [{"key": CASE, "operator": "In", "values": [case.name, *places[1:]]}]}]
    if not places:
        terms.append({"matchExpressions": [{"key": case.elsewhere, "operator": "In", "values": [case.name]}]})
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {
        "tolerations": [{"key": "only-for", "value": story.stage.namespace, "effect": "NoSchedule"}],
        "terminationGracePeriodSeconds": 1,
        "containers": [_container()],
        **case.pod,
        "affinity": {**case.pod.get("affinity", {}), "nodeAffinity": node_affinity},
    }
    template = {"metadata": {"labels": {"app": app}, **case.meta}, "spec": spec}
    body = {
        "metadata": {"name": app, "annotations": case.annotations},
        "spec": {"replicas": case.pods, "selector": {"matchLabels": {"app": app}}, "template": template},
    }
    await story.stage.client.create(DEPLOYMENTS, home, body)


def _container() -> dict[str, Any]:
    return {
        "name": "main",
        "image": "example.org/none",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }


def _bare(name: str, story: Story, labels: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    tolerations = [{"key": "only-for", "value": story.stage.namespace, "effect": "NoSchedule"}]
    base = {"tolerations": tolerations, "terminationGracePeriodSeconds": 1, "containers": [_container()]}
    return {"metadata": {"name": name, "labels": {"story": name, **labels}}, "spec": {**base, **spec}}


async def _all_run(story: Story) -> bool:
    for case in CASES:
        if not case.pods:
            continue
        home = case.home or story.stage.namespace
        pods = (await story.stage.client.list(PODS, home, label_selector=f"app={story.app(case)}")).items
        if sum(pod.ready for pod in pods) != case.pods:
            return False
    return True


async def _held(story: Story, case: Case, running: Running) -> list[str]:
    """Told in an event, a metric and an explanation; and the node is as it was."""
    stage = story.stage
    labels = {"nodegroup": case.name, "namespace": stage.namespace, "reason": case.code}

    async def told() -> bool:
        events = [one for one in await stage.events("ScaleDownBlocked") if one.regarding.name == case.name]
        return bool(events) and running.counted("vpsie_autoscaler_scale_down_blocked_total", **labels) >= 1

    await eventually(told, f"{case.name}: event and metric {case.code}")
    nodes = await story.nodes(case)
    assert len(nodes) == case.nodes, case.name
    assert not any(taint.key == DRAIN_TAINT for node in nodes for taint in node.spec.taints), case.name
    view = running.operator.view
    codes = set()
    for node in nodes:
        (member,) = [one for one in view[VPSIE_NODES] if one.node_name == node.name]
        answer = Explainer(running.config).explain(VPSIE_NODES.key(member), view, RealClock().now())
        assert isinstance(answer, DecisionExplanation)
        codes |= {blocker.code for blocker in answer.blockers}
    assert case.code in codes, (case.name, codes)
    return [node.name for node in nodes]


async def _all_gone(story: Story) -> bool:
    return [member.spec.node_group_name for member in await story.stage.members()] == ["shelter"]


async def _delete(stage: Stage, kind: Any, namespace: str, name: str) -> None:
    found = await stage.client.get(kind, namespace, name)
    await stage.client.delete(kind, namespace, name, uid=found.uid)
