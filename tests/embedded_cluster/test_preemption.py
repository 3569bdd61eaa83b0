"""Pods of higher priority preempt pods of lower priority, and no other pods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, condition, name_of
from plimsoll.embedded_cluster.api.status import StatusError
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from tests.embedded_cluster.scene import A_WHILE, cluster, deployment, ready_pods, virtually


async def classes(made: EmbeddedCluster, **values: int) -> None:
    for name, value in values.items():
        await made.create(kinds.PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})


def pod(name: str, cpu: str, priority: str = "", **spec: Any) -> Json:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    chosen = {"priorityClassName": priority} if priority else {}
    return {"metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": [container], **chosen, **spec}}


def where(made: EmbeddedCluster) -> dict[str, str]:
    return {name_of(one): one["spec"].get("nodeName", "") for one in made.all(kinds.PODS)}


@virtually
async def test_the_least_important_make_room_and_no_more_of_them_than_needed() -> None:
    async with cluster("1 prefix=n cpu=4") as made:
        await classes(made, low=1, middle=5, high=10)
        for name, cpu, priority in (("a", "1", "low"), ("b", "1", "low"), ("c", "1", "middle"), ("d", "1", "high")):
            await made.create(kinds.PODS, pod(name, cpu, priority))
        await asyncio.sleep(A_WHILE)
        await made.create(kinds.PODS, pod("urgent", "2", "high"))
        await asyncio.sleep(A_WHILE)
        assert where(made) == {"c": "n-1", "d": "n-1", "urgent": "n-1"}
        told = {event["reason"] for event in made.all(kinds.CORE_EVENTS) if event["involvedObject"]["name"] == "a"}
        assert "Preempted" in told


@virtually
async def test_nobody_goes_where_that_would_not_help_or_is_not_wanted() -> None:
    async with cluster("1 prefix=n cpu=4") as made:
        await classes(made, high=10)
        await made.create(kinds.PODS, pod("there", "3"))
        await asyncio.sleep(A_WHILE)
        await made.create(kinds.PODS, pod("too-big", "5", "high"))
        await made.create(
            kinds.PRIORITY_CLASSES, {"metadata": {"name": "polite"}, "value": 7, "preemptionPolicy": "Never"}
        )
        await made.create(kinds.PODS, pod("patient", "2", "polite"))
        await made.create(kinds.PODS, pod("equal", "2"))
        await asyncio.sleep(A_WHILE)
        assert where(made) == {"there": "n-1", "too-big": "", "patient": "", "equal": ""}


@virtually
async def test_a_budget_is_spared_where_another_node_will_do() -> None:
    async with cluster("2 prefix=n cpu=4") as made:
        await classes(made, high=10)
        await made.create(kinds.DEPLOYMENTS, deployment("guarded", replicas=1, pod=pod("x", "3")["spec"]))
        selector = {"matchLabels": {"app": "guarded"}}
        await made.create(
            kinds.BUDGETS, {"metadata": {"name": "guard"}, "spec": {"minAvailable": 1, "selector": selector}}
        )
        await asyncio.sleep(A_WHILE)
        await made.create(kinds.PODS, pod("plain", "3"))
        await asyncio.sleep(A_WHILE)
        await made.create(kinds.PODS, pod("urgent", "3", "high"))
        await asyncio.sleep(A_WHILE)
        assert "plain" not in where(made)
        assert where(made)["urgent"]
        assert len(ready_pods(made, "guarded")) == 1


@virtually
async def test_the_pod_is_told_where_room_is_made_for_it() -> None:
    async with cluster("1 prefix=n cpu=4") as made:
        await classes(made, high=10)
        slow = pod("slow", "3")
        slow["metadata"]["annotations"] = {"controlplane.test/gone-after": "20s"}
        await made.create(kinds.PODS, slow)
        await asyncio.sleep(A_WHILE)
        await made.create(kinds.PODS, pod("urgent", "3", "high"))
        await asyncio.sleep(A_WHILE)
        waiting = made.api.objects.get(kinds.PODS, "default", "urgent")
        assert at(waiting, "status", "nominatedNodeName") == "n-1"
        target = condition(made.api.objects.get(kinds.PODS, "default", "slow"), "DisruptionTarget")
        assert target is not None
        assert target["reason"] == "PreemptionByScheduler"
        await asyncio.sleep(30)
        assert where(made) == {"urgent": "n-1"}


@virtually
async def test_classes_give_pods_their_number() -> None:
    async with cluster() as made:
        await made.create(kinds.PRIORITY_CLASSES, {"metadata": {"name": "usual"}, "value": 3, "globalDefault": True})
        for name, given, number in (("a", "", 3), ("b", "system-node-critical", 2_000_001_000)):
            created = await made.create(kinds.PODS, pod(name, "1", given))
            assert created["spec"]["priority"] == number
        with pytest.raises(StatusError, match='pods "c" is forbidden: no PriorityClass with name none was found'):
            await made.create(kinds.PODS, pod("c", "1", "none"))
