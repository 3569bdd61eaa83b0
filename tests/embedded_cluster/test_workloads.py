"""Life in the embedded cluster: rollouts, losses, reclaims, budgets."""

from __future__ import annotations

import asyncio

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import annotations_of, at, name_of, object_labels, terminating
from plimsoll.embedded_cluster.api.server import ApiRequest
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.embedded_cluster.controllers.pods import pod_is_active, pod_is_ready
from plimsoll.embedded_cluster.controllers.replica_ranking import COST
from tests.embedded_cluster.scene import A_WHILE, by_label, cluster, deployment, patch, pods, ready_pods, virtually

ZONES = tuple(f"2 zone={zone} class=spot" for zone in "abc")


@virtually
async def test_pods_start_after_their_time_and_spread_over_zones() -> None:
    async with cluster(*ZONES) as made:
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=9))
        await asyncio.sleep(0.5)
        assert len(pods(made)) == 9
        assert not ready_pods(made), "a pod takes a second to start"
        await asyncio.sleep(A_WHILE)
        assert by_label(made, ready_pods(made)) == {"a": 3, "b": 3, "c": 3}


@virtually
async def test_a_rollout_keeps_what_it_promises_at_every_moment() -> None:
    async with cluster(*ZONES) as made:
        await made.create(
            kinds.DEPLOYMENTS, deployment(replicas=8, strategy={"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}})
        )
        await asyncio.sleep(A_WHILE)
        fewest, most = 8, 8

        def look(_: ObjectChange) -> None:
            nonlocal fewest, most
            fewest = min(fewest, len(ready_pods(made)))
            most = max(most, len(pods(made)))

        made.api.storage.collection(kinds.PODS).listeners.append(look)
        await patch(made, kinds.DEPLOYMENTS, "web", {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}})
        await asyncio.sleep(60)
        assert len(ready_pods(made)) == 8
        assert all(annotations_of(pod).get("v") == "2" for pod in pods(made))
        assert fewest >= 7
        assert most <= 10
        sizes = sorted(at(one, "spec", "replicas") for one in made.all(kinds.REPLICASETS))
        assert sizes == [0, 8]


@virtually
async def test_scaled_in_the_middle_of_a_rollout_it_ends_at_the_new_size() -> None:
    async with cluster(*ZONES) as made:
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=10))
        await asyncio.sleep(A_WHILE)
        await patch(made, kinds.DEPLOYMENTS, "web", {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}})
        await asyncio.sleep(1.5)
        sizes = [at(one, "spec", "replicas") for one in made.all(kinds.REPLICASETS)]
        assert all(sizes), "both are there"
        await patch(made, kinds.DEPLOYMENTS, "web", {"spec": {"replicas": 20}})
        await asyncio.sleep(60)
        assert len(ready_pods(made)) == 20
        assert all(annotations_of(pod).get("v") == "2" for pod in pods(made))


@virtually
async def test_recreate_starts_nothing_before_the_last_is_gone() -> None:
    async with cluster(*ZONES) as made:
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=3, strategy={"type": "Recreate"}))
        await asyncio.sleep(A_WHILE)
        mixed = []

        def look(_: ObjectChange) -> None:
            mixed.append(len({annotations_of(pod).get("v") for pod in made.all(kinds.PODS)}))

        made.api.storage.collection(kinds.PODS).listeners.append(look)
        await patch(made, kinds.DEPLOYMENTS, "web", {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}})
        await asyncio.sleep(30)
        assert len(ready_pods(made)) == 3
        assert max(mixed) == 1


@virtually
async def test_a_scale_down_takes_the_lowest_cost_first() -> None:
    async with cluster(*ZONES) as made:
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=6))
        await asyncio.sleep(A_WHILE)
        for number, pod in enumerate(pods(made)):
            await patch(made, kinds.PODS, name_of(pod), {"metadata": {"annotations": {COST: str(number * 10 - 20)}}})
        await patch(made, kinds.DEPLOYMENTS, "web", {"spec": {"replicas": 2}})
        await asyncio.sleep(A_WHILE)
        assert sorted(annotations_of(pod)[COST] for pod in pods(made)) == ["20", "30"]


@virtually
async def test_a_reclaimed_spot_node_is_marked_and_then_gone_with_its_pods() -> None:
    async with cluster(*ZONES) as made:
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=6))
        await asyncio.sleep(A_WHILE)
        node = pods(made)[0]["spec"]["nodeName"]
        made.reclaim(node, notice_seconds=120)
        await asyncio.sleep(60)
        found = made.api.objects.get(kinds.NODES, "", node)
        assert [taint["key"] for taint in found["spec"]["taints"]] == ["aws-node-termination-handler/spot-itn"]
        await asyncio.sleep(60 + A_WHILE)
        assert node not in {name_of(one) for one in made.all(kinds.NODES)}
        assert len(ready_pods(made)) == 6
        assert all(pod["spec"]["nodeName"] != node for pod in made.all(kinds.PODS))


@virtually
async def test_a_silent_node_keeps_its_pods_for_five_minutes() -> None:
    async with cluster("1 zone=a", "1 zone=b") as made:
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=2))
        await asyncio.sleep(A_WHILE)
        node = pods(made)[0]["spec"]["nodeName"]
        made.kubelets.silence(node)
        await asyncio.sleep(40)
        assert len(ready_pods(made)) == 2, "nobody knows yet"
        await asyncio.sleep(20)
        assert len(ready_pods(made)) == 1
        found = made.api.objects.get(kinds.NODES, "", node)
        assert {taint["key"] for taint in found["spec"]["taints"]} == {"node.kubernetes.io/unreachable"}
        await asyncio.sleep(240)
        assert len([pod for pod in made.all(kinds.PODS) if terminating(pod)]) == 0
        await asyncio.sleep(60)
        assert [pod["spec"]["nodeName"] for pod in made.all(kinds.PODS) if terminating(pod)] == [node]
        assert len(ready_pods(made)) == 2
        made.kubelets.revive(node)
        await asyncio.sleep(A_WHILE)
        assert not [pod for pod in made.all(kinds.PODS) if terminating(pod)]


@virtually
async def test_when_every_node_is_silent_nobody_is_sent_away() -> None:
    async with cluster("2 zone=a") as made:
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=2))
        await asyncio.sleep(A_WHILE)
        nodes = [name_of(node) for node in made.all(kinds.NODES)]
        for node in nodes:
            made.kubelets.silence(node)
        await asyncio.sleep(3600)
        assert len(pods(made)) == 2
        made.kubelets.revive(nodes[0])
        await asyncio.sleep(3600)
        assert {pod["spec"]["nodeName"] for pod in pods(made)} == {nodes[0]}


@virtually
async def test_a_stateful_set_goes_up_and_down_one_by_one() -> None:
    async with cluster(*ZONES) as made:
        body = deployment("db", replicas=3, serviceName="db")
        await made.create(kinds.STATEFULSETS, body)
        await asyncio.sleep(1.5)
        assert [name_of(pod) for pod in pods(made, "db")] == ["db-0", "db-1"], "each waits for the one before"
        await asyncio.sleep(A_WHILE)
        assert [name_of(pod) for pod in ready_pods(made, "db")] == ["db-0", "db-1", "db-2"]
        await patch(made, kinds.STATEFULSETS, "db", {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}})
        await asyncio.sleep(0.5)
        assert [name_of(pod) for pod in made.all(kinds.PODS) if terminating(pod)] == ["db-2"], "the highest first"
        await asyncio.sleep(60)
        assert [annotations_of(pod).get("v") for pod in ready_pods(made, "db")] == ["2", "2", "2"]
        await patch(made, kinds.STATEFULSETS, "db", {"spec": {"replicas": 1}})
        await asyncio.sleep(60)
        assert [name_of(pod) for pod in made.all(kinds.PODS)] == ["db-0"]


@virtually
async def test_a_daemon_comes_with_its_node() -> None:
    async with cluster("1 zone=a", "1 zone=b label:pool=x") as made:
        body = deployment("agent", pod={"nodeSelector": {"pool": "x"}})
        del body["spec"]["replicas"]
        await made.create(kinds.DAEMONSETS, body)
        await asyncio.sleep(A_WHILE)
        assert len(ready_pods(made, "agent")) == 1
        await made.add_nodes("2 zone=c label:pool=x")
        await asyncio.sleep(A_WHILE)
        assert len(ready_pods(made, "agent")) == 3
        assert len({pod["spec"]["nodeName"] for pod in pods(made, "agent")}) == 3


@virtually
async def test_pods_wait_for_room_and_say_why() -> None:
    async with cluster("1 zone=a cpu=1") as made:
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=12))
        await asyncio.sleep(A_WHILE)
        assert len(ready_pods(made)) == 10
        waiting = [pod for pod in pods(made) if not pod["spec"].get("nodeName")]
        assert len(waiting) == 2
        (condition,) = waiting[0]["status"]["conditions"]
        assert condition["reason"] == "Unschedulable"
        assert "cpu" in condition["message"]
        assert any(event["reason"] == "FailedScheduling" for event in made.all(kinds.CORE_EVENTS))
        await made.add_nodes("1 zone=b cpu=1")
        await asyncio.sleep(A_WHILE)
        assert len(ready_pods(made)) == 12


@virtually
async def test_a_namespace_goes_with_all_that_is_in_it() -> None:
    async with cluster(*ZONES) as made:
        await made.create(kinds.NAMESPACES, {"metadata": {"name": "doomed"}})
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=3), "doomed")
        await asyncio.sleep(A_WHILE)
        assert len(made.all(kinds.PODS, "doomed")) == 3
        made.api.objects.delete(kinds.NAMESPACES, "", "doomed", {})
        await asyncio.sleep(A_WHILE)
        assert made.all(kinds.PODS, "doomed") == made.all(kinds.DEPLOYMENTS, "doomed") == ()
        assert "doomed" not in {name_of(one) for one in made.all(kinds.NAMESPACES)}


@virtually
async def test_a_day_of_a_budget_never_goes_below_it() -> None:
    """Whoever evicts as often as the budget allows finds enough ready pods at every moment."""
    async with cluster(*ZONES) as made:
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=6))
        selector = {"matchLabels": {"app": "web"}}
        await made.create(
            kinds.BUDGETS, {"metadata": {"name": "web"}, "spec": {"minAvailable": 4, "selector": selector}}
        )
        await asyncio.sleep(A_WHILE)
        fewest, evicted = 6, 0

        def look(_: ObjectChange) -> None:
            nonlocal fewest
            fewest = min(
                fewest,
                len(
                    [
                        pod
                        for pod in made.all(kinds.PODS)
                        if pod_is_active(pod) and pod_is_ready(pod) and object_labels(pod)
                    ]
                ),
            )

        made.api.storage.collection(kinds.PODS).listeners.append(look)
        for _ in range(60):
            for pod in pods(made):
                answer = await made.api.handle(_eviction(name_of(pod)))
                assert answer.status in (201, 429)
                evicted += answer.status == 201
            await asyncio.sleep(10)
        assert fewest == 4
        assert evicted > 100
        assert len(ready_pods(made)) == 6


def _eviction(name: str) -> ApiRequest:
    return ApiRequest("POST", f"/api/v1/namespaces/default/pods/{name}/eviction", {}, b"{}")
