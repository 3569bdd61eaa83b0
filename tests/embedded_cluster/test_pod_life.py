"""What `kubectl describe`, `logs` and `exec` show of pods that do not really run."""

from __future__ import annotations

import asyncio
from typing import Any

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import name_of
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from tests.embedded_cluster.scene import ask, cluster, deployment, pods, virtually

LINE = "2 zone=a class=spot"


def events(made: EmbeddedCluster, reason: str) -> list[dict[str, Any]]:
    return [one for one in made.all(kinds.CORE_EVENTS) if one["reason"] == reason]


@virtually
async def test_pods_have_events_from_scheduling_to_the_end():
    async with cluster(LINE, pod_events=True) as made:
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=2))
        await asyncio.sleep(60)
        pod = pods(made)[0]
        (scheduled,) = [one for one in events(made, "Scheduled") if one["involvedObject"]["name"] == name_of(pod)]
        assert scheduled["message"] == f"Successfully assigned default/{name_of(pod)} to {pod['spec']['nodeName']}"
        assert scheduled["source"]["component"] == "default-scheduler"
        assert len(events(made, "Started")) == 2
        assert events(made, "Started")[0]["message"] == "Container started: main"
        assert events(made, "Killing") == []
        made.api.objects.delete(kinds.PODS, "default", name_of(pod), {})
        await asyncio.sleep(60)
        (killing,) = events(made, "Killing")
        assert (killing["involvedObject"]["name"], killing["message"]) == (name_of(pod), "Stopping container main")


@virtually
async def test_without_them_a_simulation_stays_small():
    async with cluster(LINE) as made:
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=2))
        await asyncio.sleep(60)
        assert events(made, "Scheduled") == events(made, "Started") == []


@virtually
async def test_logs_say_that_nothing_runs():
    async with cluster(LINE) as made:
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=1))
        await asyncio.sleep(60)
        path = f"/api/v1/namespaces/default/pods/{name_of(pods(made)[0])}"
        answer = await ask(made, "GET", f"{path}/log")
        assert answer.status == 200
        assert "embedded cluster: container main does not run and writes no log" in (answer.text or "")
        wrong = await ask(made, "GET", f"{path}/log", container="nonesuch")
        assert (wrong.status, "container nonesuch is not valid" in str(wrong.body)) == (400, True)


@virtually
async def test_logs_of_a_pod_that_has_not_started_are_refused():
    async with cluster() as made:
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=1))
        await asyncio.sleep(60)
        answer = await ask(made, "GET", f"/api/v1/namespaces/default/pods/{name_of(pods(made)[0])}/log")
        assert answer.status == 400
        assert "is waiting to start" in str(answer.body)


@virtually
async def test_exec_is_refused_in_a_sentence():
    async with cluster(LINE) as made:
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=1))
        await asyncio.sleep(60)
        path = f"/api/v1/namespaces/default/pods/{name_of(pods(made)[0])}"
        for part in ("exec", "attach", "portforward"):
            for method in ("GET", "POST"):
                answer = await ask(made, method, f"{path}/{part}", command="sh")
                assert answer.status == 400
                assert f"pods/{part} is not supported: this is an embedded cluster" in str(answer.body)
        missing = await ask(made, "POST", "/api/v1/namespaces/default/pods/nonesuch/exec")
        assert missing.status == 404
