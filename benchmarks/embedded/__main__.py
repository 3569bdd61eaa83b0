"""`python -m benchmarks.embedded`: 5,000 nodes and 50,000 pods in the embedded cluster, and a day of its life."""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import aiohttp

from benchmarks.report import Figure, Report, progress
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, name_of
from plimsoll.embedded_cluster.clocks import VirtualClock, run_virtually
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from plimsoll.embedded_cluster.controllers.context import ClusterTimings
from plimsoll.embedded_cluster.http import HttpServer
from plimsoll.embedded_cluster.node_spec import parse_node_line
from plimsoll.runtime.clock import RealClock

PODS_OF_AN_OWNER = 50


def _nodes(count: int) -> Iterator[Json]:
    ready = [
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ]
    for number in range(count):
        line = parse_node_line(
            f"zone={'abc'[number % 3]} class={'spot' if number % 2 else 'on-demand'} cpu=16 memory=64Gi"
        )
        node = line.manifest(f"node-{number}", f"10.0.{number // 256}.{number % 256}", kubelet="plimsoll")
        yield {**node, "status": {**node["status"], "conditions": ready}}


def _replica_sets(count: int) -> Iterator[Json]:
    for number in range(count):
        labels = {"app": f"app-{number}"}
        yield {
            "metadata": {"name": f"app-{number}", "namespace": "default", "uid": f"owner-{number}", "generation": 1},
            "spec": {
                "replicas": PODS_OF_AN_OWNER,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": _spec()},
            },
            "status": {"replicas": PODS_OF_AN_OWNER, "readyReplicas": PODS_OF_AN_OWNER, "observedGeneration": 1},
        }


def _spec() -> Json:
    requests = {"cpu": "250m", "memory": "512Mi"}
    return {
        "containers": [{"name": "main", "image": "example.org/none:1", "resources": {"requests": requests}}],
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
    }


def _pods(count: int, nodes: int) -> Iterator[Json]:
    spec, moment = _spec(), "2026-01-01T00:00:00Z"
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": moment} for kind in ("PodScheduled", "Ready")]
    for number in range(count):
        owner = number // PODS_OF_AN_OWNER
        reference = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": f"app-{owner}",
            "uid": f"owner-{owner}",
            "controller": True,
        }
        yield {
            "metadata": {
                "name": f"app-{owner}-{number}", "namespace": "default", "labels": {"app": f"app-{owner}"},
                "ownerReferences": [reference],
            },
            "spec": {**spec, "nodeName": f"node-{number % nodes}"},
            "status": {"phase": "Running", "startTime": moment, "conditions": conditions},
        }  # fmt: skip


async def _capacity(nodes: int, pods: int) -> dict[str, float]:
    found: dict[str, float] = {}
    before = _memory_mb()
    started, started_cpu = time.perf_counter(), time.process_time()
    async with EmbeddedCluster(RealClock()) as cluster, HttpServer(cluster.api) as server:
        cluster.load(kinds.NODES, _nodes(nodes))
        cluster.load(kinds.REPLICASETS, _replica_sets(pods // PODS_OF_AN_OWNER))
        cluster.load(kinds.PODS, _pods(pods, nodes))
        found["start"], found["start CPU"] = time.perf_counter() - started, time.process_time() - started_cpu
        await cluster.settled()
        found["settle"] = time.perf_counter() - started
        gc.collect()
        found["memory"] = _memory_mb() - before
        if len(cluster.all(kinds.PODS)) != pods:
            raise SystemExit(f"{len(cluster.all(kinds.PODS))} pods of {pods}: the cluster did not hold them")
        async with aiohttp.ClientSession() as session:
            started = time.perf_counter()
            async with session.get(f"{server.url}/api/v1/pods") as response:
                found["bytes"] = len(await response.read())
            found["list"] = time.perf_counter() - started
        await _schedule(cluster, found)
    return found


async def _schedule(cluster: EmbeddedCluster, found: dict[str, float]) -> None:
    """A thousand new pods among all that is there."""
    labels = {"app": "new"}
    template = {"metadata": {"labels": labels}, "spec": _spec()}
    spec = {"replicas": 1000, "selector": {"matchLabels": labels}, "template": template}
    started = time.perf_counter()
    await cluster.create(kinds.DEPLOYMENTS, {"metadata": {"name": "new"}, "spec": spec})
    while True:
        await cluster.settled()
        deployment = cluster.api.objects.get(kinds.DEPLOYMENTS, "default", "new")
        if deployment["status"].get("readyReplicas") == 1000:
            break
        await asyncio.sleep(0.01)
    found["schedule"] = time.perf_counter() - started


async def _day(workloads: int, rng: random.Random) -> int:
    """A day in which something happens to some workload, or node, every minute."""
    async with EmbeddedCluster(VirtualClock(), times=ClusterTimings(pod_start=5.0, pod_stop=5.0)) as cluster:
        for zone in "abc":
            await cluster.add_nodes(f"20 zone={zone} class=spot cpu=64 memory=256Gi")
        for number in range(workloads):
            labels = {"app": f"w{number}"}
            template = {"metadata": {"labels": labels}, "spec": _spec()}
            spec: dict[str, Any] = {"replicas": 10, "selector": {"matchLabels": labels}, "template": template}
            await cluster.create(kinds.DEPLOYMENTS, {"metadata": {"name": f"w{number}"}, "spec": spec})
        for minute in range(24 * 60):
            await asyncio.sleep(60)
            name = f"w{rng.randrange(workloads)}"
            scale = {"spec": {"replicas": rng.randint(5, 15)}}
            await cluster.api.objects.patch(kinds.DEPLOYMENTS, "default", name, scale, "application/merge-patch+json")
            if minute % 60 == 0:
                cluster.reclaim(name_of(rng.choice(cluster.all(kinds.NODES))))
                await cluster.add_nodes(f"1 zone={rng.choice('abc')} class=spot cpu=64 memory=256Gi")
        return cluster.api.storage.revision


def _memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _process_start() -> tuple[float, float]:
    """Seconds, and seconds of CPU, from the command to a cluster that answers: the interpreter and its imports included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.embedded.command"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None or "The cluster is at" not in process.stdout.readline():
            raise SystemExit("the command does not start")
        seconds = time.perf_counter() - started
        process.stdout.readline()
        process.terminate()
        process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embedded", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--workloads", type=int, default=100)
    options = parser.parse_args()
    progress("starting the command")
    command, command_cpu = (min(figures) for figures in zip(*(_process_start() for _ in range(3)), strict=True))
    progress("filling")
    found = asyncio.run(_capacity(options.nodes, options.pods))
    progress("living through a day")
    started, started_cpu = time.perf_counter(), time.process_time()
    revisions = run_virtually(_day(options.workloads, random.Random(1)))
    day, day_cpu = time.perf_counter() - started, time.process_time() - started_cpu
    report = Report(
        "embedded",
        f"{options.nodes:,} nodes and {options.pods:,} pods, then a day of {options.workloads} workloads",
        [
            Figure("command to first answer, six nodes", "s", command, at_most=2),
            Figure("CPU of the command, its end included", "s", command_cpu),
            Figure("load everything", "s", found["start"]),
            Figure("CPU of that", "s", found["start CPU"]),
            Figure("and come to rest", "s", found["settle"]),
            Figure("memory, at its peak", "MB", found["memory"]),
            Figure("list all pods over HTTP", "s", found["list"]),
            Figure("1,000 more pods, scheduled and ready", "s", found["schedule"]),
            Figure("a day in virtual time", "s", day),
            Figure("CPU of that day", "s", day_cpu),
            Figure("changes a second of CPU", "/s", revisions / day_cpu),
        ],
        facts={"bytes of the list": int(found["bytes"]), "changes in the day": revisions},
    )
    report.print(as_json=options.json)
    return 0 if report.kept else 1


if __name__ == "__main__":
    sys.exit(main())
