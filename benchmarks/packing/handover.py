"""What it costs to have the worker process answer: to give it a snapshot of 5,000 nodes."""

from __future__ import annotations

import asyncio
import pickle
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.packing import workloads
from benchmarks.report import Figure
from plimsoll.scheduling.removable import removable
from plimsoll.scheduling.snapshot import Snapshot
from plimsoll.scheduling.worker import Worker
from plimsoll.scheduling.worker import handed_over as message_for

_NODES = 5_000
_PODS_A_NODE = 30  # with 5,000 nodes, the 150,000 pods for which Kubernetes is made


@dataclass(frozen=True)
class HandOver:
    nodes: int
    pods: int
    megabytes: float
    held_seconds: float  # in which the one who asks can do nothing else: writing the snapshot down
    seconds: float  # all of it: the answer to a question that takes no thought, less that thought

    def figures(self) -> list[Figure]:
        name = f"hand-over, {self.nodes:,} nodes"
        return [
            Figure(f"{name}: time", "ms", 1000 * self.seconds, at_most=100),
            Figure(f"{name}: loop held", "ms", 1000 * self.held_seconds),
            Figure(f"{name}: message", "MB", self.megabytes),
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "pods": self.pods,
            "megabytes": self.megabytes,
            "heldSeconds": self.held_seconds,
            "seconds": self.seconds,
        }


def handed_over(runs: int, nodes: int = _NODES, pods_a_node: int = _PODS_A_NODE) -> HandOver:
    cluster = workloads.large_cluster(nodes, pods_a_node)
    snapshot = Snapshot.build(cluster.nodes(), cluster.pods())
    message = message_for((snapshot, []))
    held, thought = [], []
    for _ in range(runs):
        started = time.perf_counter()
        message_for((snapshot, []))
        held.append(time.perf_counter() - started)
        arrived, names = pickle.loads(message)
        started = time.perf_counter()
        removable(arrived, names)
        thought.append(time.perf_counter() - started)
    answered = asyncio.run(_answered(snapshot, runs))
    return HandOver(nodes, nodes * pods_a_node, len(message) / 1e6, min(held), answered - min(thought))


async def _answered(snapshot: Snapshot, runs: int) -> float:
    seconds = []
    async with Worker() as worker:
        await worker.removable(snapshot, [])  # starts the process
        for _ in range(runs):
            started = time.perf_counter()
            await worker.removable(snapshot, [])
            seconds.append(time.perf_counter() - started)
    return min(seconds)
