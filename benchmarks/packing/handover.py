"""Measures the cost of sending a snapshot of 5,000 nodes to the worker process."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from benchmarks.packing import workloads
from benchmarks.report import Figure
from plimsoll.scheduling.snapshot import Snapshot
from plimsoll.scheduling.worker import serialize

_NODES = 5_000
_PODS_A_NODE = 30  # with 5,000 nodes, the 150,000 pods that Kubernetes supports


@dataclass(frozen=True)
class HandOver:
    nodes: int
    pods: int
    megabytes: float
    held_seconds: float  # during which the caller is blocked: serializing the snapshot
    seconds: float  # total: serializing, sending, reading

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


def measure_handover(runs: int, nodes: int = _NODES, pods_a_node: int = _PODS_A_NODE) -> HandOver:
    cluster = workloads.large_cluster(nodes, pods_a_node)
    snapshot = Snapshot.build(cluster.nodes(), cluster.pods())
    writing, sending, reading = [], [], []
    for _ in range(runs):
        gc.collect()
        started = time.perf_counter()
        message = serialize((snapshot, []))
        written = time.perf_counter()
        arrived = _sent(message)
        received = time.perf_counter()
        pickle.loads(arrived)
        reading.append(time.perf_counter() - received)
        sending.append(received - written)
        writing.append(written - started)
    return HandOver(
        nodes, nodes * pods_a_node, len(message) / 1e6, min(writing), min(writing) + min(sending) + min(reading)
    )


def _sent(message: bytes) -> bytes:
    """Send through a pipe like that of the worker, to a thread instead of a process."""
    ours, theirs = multiprocessing.Pipe()
    with ThreadPoolExecutor(1) as thread, ours, theirs:
        arriving = thread.submit(theirs.recv_bytes)
        ours.send_bytes(message)
        return arriving.result()
