"""Zonal volumes: made where their first pod runs, and from then on every pod of the claim runs there or waits."""

from __future__ import annotations

import asyncio
from collections import Counter

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, name_of, object_labels
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from tests.embedded_cluster.scene import cluster, deployment, patch, pods, ready_pods, virtually

ZONES = tuple(f"2 zone={zone} prefix={zone}" for zone in "abc")
ZONE = "topology.kubernetes.io/zone"


def database(replicas: int) -> Json:
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    return deployment(
        "db", replicas=replicas, serviceName="db", podManagementPolicy="Parallel", volumeClaimTemplates=[claim]
    )


def zones(made: EmbeddedCluster) -> dict[str, str]:
    nodes = {name_of(node): object_labels(node)[ZONE] for node in made.all(kinds.NODES)}
    return {name_of(pod): nodes[pod["spec"]["nodeName"]] for pod in ready_pods(made, "db")}


@virtually
async def test_a_pod_comes_back_to_the_zone_of_its_volume() -> None:
    async with cluster(*ZONES) as made:
        await made.create(kinds.STATEFULSETS, database(6))
        await asyncio.sleep(30)
        before = zones(made)
        assert set(Counter(before.values())) == {"a", "b", "c"}
        assert {at(one, "status", "phase") for one in made.all(kinds.CLAIMS)} == {"Bound"}
        for _ in range(3):
            for pod in pods(made, "db"):
                made.api.objects.delete(kinds.PODS, "default", name_of(pod), {})
            await asyncio.sleep(60)
            assert zones(made) == before


@virtually
async def test_it_waits_while_its_zone_has_no_node_and_says_why() -> None:
    async with cluster("1 zone=a prefix=a", "1 zone=b prefix=b") as made:
        await made.create(kinds.STATEFULSETS, database(2))
        await asyncio.sleep(30)
        in_a = next(pod for pod, zone in zones(made).items() if zone == "a")
        made.remove_node("a-1")
        await asyncio.sleep(600)
        assert in_a not in zones(made)
        waiting = next(pod for pod in pods(made, "db") if name_of(pod) == in_a)
        assert "volume" in at(waiting, "status", "conditions")[0]["message"].lower()
        await made.add_nodes("1 zone=a prefix=c")
        await asyncio.sleep(30)
        assert zones(made)[in_a] == "a"


@virtually
async def test_a_claim_that_does_not_exist_is_waited_for() -> None:
    async with cluster(*ZONES) as made:
        mounted = {"name": "data", "persistentVolumeClaim": {"claimName": "later"}}
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=1, pod={"volumes": [mounted]}))
        await asyncio.sleep(60)
        assert not ready_pods(made)
        await made.create(kinds.CLAIMS, {"metadata": {"name": "later"}, "spec": {}})
        await asyncio.sleep(10)
        assert len(ready_pods(made)) == 1
        await patch(made, kinds.DEPLOYMENTS, "web", {"spec": {"replicas": 3}})
        await asyncio.sleep(10)
        assert len(ready_pods(made)) == 3
