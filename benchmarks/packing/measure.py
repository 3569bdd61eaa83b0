"""Times the engine on one workload: from freshly decoded objects to the finished result."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from benchmarks.packing import workloads
from benchmarks.packing.audit import broken_rules
from plimsoll.kube.types.core import Node, NodeStatus, Pod
from plimsoll.kube.types.meta import Metadata
from plimsoll.scheduling.model import Packing, Removal, Template
from plimsoll.scheduling.pack import pack
from plimsoll.scheduling.removal import removable
from plimsoll.scheduling.snapshot import Snapshot
from tests.scheduling.checker import Placement

Given = TypeVar("Given")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Timing:
    """The least disturbed run: other work on the machine only ever adds time."""

    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Packed:
    pods: int
    seed: int
    timing: Timing
    nodes: int
    price: float
    unplaced: int
    broken: Counter[str]  # by rule: pods that violate it in the final state

    @property
    def pods_per_second(self) -> float:
        return self.pods / self.timing.seconds

    @property
    def pods_per_cpu_second(self) -> float:
        return self.pods / self.timing.cpu_seconds


@dataclass(frozen=True)
class Emptied:
    owners: int
    timing: Timing
    removed: int
    broken: Counter[str]


def timed(runs: int, prepare: Callable[[], Given], work: Callable[[Given], Answer]) -> tuple[Timing, Given, Answer]:
    """Return the fastest of `runs`, each on fresh input of `prepare`, with the last input and result.

    One untimed run comes first: an operator packs again and again, and from the second time on modules are imported and
    memory is allocated.
    """
    seconds, cpu_seconds = [], []
    work(prepare())
    for _ in range(runs):
        given = prepare()
        gc.collect()
        started, started_cpu = time.perf_counter(), time.process_time()
        answer = work(given)
        cpu_seconds.append(time.process_time() - started_cpu)
        seconds.append(time.perf_counter() - started)
    return Timing(min(seconds), min(cpu_seconds)), given, answer


def packed(bodies: Sequence[bytes], template: Template, runs: int, seed: int = 0) -> Packed:
    """Pack pending pods in a cluster without nodes: all go to new nodes."""

    def prepare() -> list[Pod]:
        return workloads.decoded(bodies, Pod)

    def work(pods: list[Pod]) -> Packing:
        return pack(Snapshot.build((), ()), pods, (template,))

    timing, pods, packing = timed(runs, prepare, work)
    broken = broken_rules(new_nodes(packing, template), placements_of(packing, pods))
    return Packed(len(pods), seed, timing, len(packing.new_nodes), packing.price, len(packing.unplaced), broken)


def faster(one: Packed, other: Packed) -> Packed:
    """Return the faster of two measurements of the same work."""
    seconds = min(one.timing.seconds, other.timing.seconds)
    return replace(one, timing=Timing(seconds, min(one.timing.cpu_seconds, other.timing.cpu_seconds)))


def emptied(cluster: workloads.Cluster, owners: int, runs: int) -> Emptied:
    """Find the removable nodes, starting from nodes and pods that no snapshot has seen."""

    def prepare() -> tuple[list[Node], list[Pod]]:
        return cluster.nodes(), cluster.pods()

    def work(given: tuple[list[Node], list[Pod]]) -> list[Removal]:
        nodes, pods = given
        return removable(Snapshot.build(nodes, pods), [node.name for node in nodes])

    timing, (nodes, pods), removals = timed(runs, prepare, work)
    gone = {removal.node for removal in removals if removal.plan is not None}
    moved = {uid: name for removal in removals for uid, name in (removal.plan or {}).items()}
    # A plan may send a pod to a node that is removed later, with a place for it in that node's own plan: only the last
    # counts.
    placements = [Placement(pod, moved.get(pod.uid, pod.spec.node_name)) for pod in pods]
    stranded = sum(placement.node_name in gone for placement in placements)
    staying = [node for node in nodes if node.name not in gone]
    broken = broken_rules(staying, [placement for placement in placements if placement.node_name not in gone])
    if stranded:
        broken["on a node that is gone"] = stranded
    return Emptied(owners, timing, len(gone), broken)


def new_nodes(packing: Packing, template: Template) -> list[Node]:
    offerings = {offering.name: offering for offering in template.offerings}
    made = []
    for new in packing.new_nodes:
        offering = offerings[new.offering]
        labels = {**template.labels, **offering.labels, workloads.HOSTNAME: new.name}
        status = NodeStatus(allocatable=offering.allocatable, capacity=offering.allocatable)
        made.append(Node(metadata=Metadata(name=new.name, labels=labels), status=status))
    return made


def placements_of(packing: Packing, pods: Sequence[Pod]) -> list[Placement]:
    by_uid = {pod.uid: pod for pod in pods}
    return [Placement(by_uid[uid], name) for uid, name in packing.placements.items()]
