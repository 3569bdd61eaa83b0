"""`python -m benchmarks.nodegroups`: 5,000 nodes, 50,000 pods; then 5,000 pods that wait, or 5,000 nodes that might go."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from msgspec.structs import replace

from benchmarks.nodegroups.cluster import NOW, inventories, view_of
from benchmarks.report import Figure, Report, progress
from plimsoll.controllers.nodegroups.controller import CLUSTER, NodeGroupController
from plimsoll.controllers.nodegroups.planner import PlannerWorker, WorkerPlanner
from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import NODES, PODS, Key
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.decision import Create, Decision
from plimsoll.runtime.gc_tuning import collect_and_freeze, disable_automatic_full_gc

FULL = "780m"  # of which ten fill a node, so that a pod of one core finds no room
LITTLE = "200m"
TICK_SECONDS = 0.001


@dataclass
class Stall:
    """The longest time for which nobody else got a turn."""

    seconds: float = 0.0

    async def watch(self) -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.perf_counter()
            self.seconds = max(self.seconds, now - last - TICK_SECONDS)
            last = now


@dataclass
class Course:
    """What one question came to."""

    decision: Decision
    seconds: float  # until the decision had its answer
    held_seconds: float  # the longest that the loop was held on the way


class Bench:
    def __init__(self, nodes: int, pods_a_node: int, cpu: str) -> None:
        clock = RealClock()
        self.planner = WorkerPlanner(clock)
        settings = NodeGroupSettings(unschedulable_pod_grace=timedelta(0))
        self.controller = NodeGroupController(settings, inventories(), planner=self.planner)
        self.view = view_of(self.controller, nodes=nodes, pods_a_node=pods_a_node, waiting=0, cpu=cpu)
        self._observer = PlannerWorker(self.planner, clock)
        self._look = asyncio.Event()
        self._now = NOW

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        def look_at(_: Key) -> None:
            self._look.set()

        watching = asyncio.create_task(self._observer.run(self.view, lambda: True, look_at))
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def course(self) -> Course:
        """Decide until there is an answer, as the reconciler does."""
        self._now += timedelta(seconds=10)
        stall = Stall()
        watching = asyncio.create_task(stall.watch())
        await asyncio.sleep(0.05)
        stall.seconds = 0.0
        started = time.perf_counter()
        while True:
            self._look.clear()
            decision = self.controller.decide(CLUSTER, self.view, self._now)
            await asyncio.sleep(0)
            if decision.reason.code != "Computing":
                break
            await self._look.wait()
        seconds = time.perf_counter() - started
        await asyncio.sleep(0.01)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        return Course(decision, seconds, stall.seconds)

    def touch(self) -> None:
        """Some pod has changed, as it does all the time."""
        pod = next(iter(self.view[PODS]))
        self.view[PODS].put(replace(pod))

    def keep(self, number: int) -> None:
        """One of the oldest nodes may not go any more."""
        node = list(self.view[NODES])[number]
        meta = replace(node.metadata, annotations={"autoscaler.vpsie.com/scale-down": "disabled"})
        self.view[NODES].put(replace(node, metadata=meta))


def arrive(view: View, more: View) -> None:
    for pod in more[PODS]:
        view[PODS].put(pod)


async def growing(nodes: int, pods_a_node: int, waiting: int, runs: int) -> tuple[list[Course], list[Course]]:
    """Settled decisions, and those that ask for machines."""
    bench = Bench(nodes, pods_a_node, FULL)
    first = nodes * pods_a_node
    more = view_of(bench.controller, nodes=0, pods_a_node=0, waiting=waiting, cpu=FULL, first_pod=first)
    collect_and_freeze()
    quiet, asked = [], []
    async with bench.running():
        await bench.course()
        for _ in range(runs):
            bench.touch()
            quiet.append(await bench.course())
        arrive(bench.view, more)
        await bench.course()  # starts the process
        for _ in range(runs):
            # A pod less: another question, which no answer is known to.
            pod = next(pod for pod in more[PODS] if bench.view[PODS].get(pod.namespace, pod.name) is not None)
            bench.view[PODS].remove(pod.namespace, pod.name)
            asked.append(await bench.course())
    return quiet, asked


async def shrinking(nodes: int, pods_a_node: int, runs: int) -> list[Course]:
    bench = Bench(nodes, pods_a_node, LITTLE)
    collect_and_freeze()
    found = []
    async with bench.running():
        await bench.course()
        await bench.course()
        for number in range(runs):
            bench.keep(number)  # another question, which no answer is known to
            found.append(await bench.course())
    return found


def report(nodes: int, pods_a_node: int, waiting: int, runs: int) -> Report:
    progress(f"{nodes:,} nodes, {nodes * pods_a_node:,} pods, {waiting:,} that wait")
    quiet, asked = asyncio.run(growing(nodes, pods_a_node, waiting, runs))
    progress(f"{nodes:,} nodes that are little used")
    going = asyncio.run(shrinking(nodes, pods_a_node, runs))
    machines = sum(isinstance(action, Create) for action in asked[0].decision.actions)
    if not machines or going[0].decision.reason.code != "ScalingDown":
        raise SystemExit("nothing was measured: no machine was asked for, or no node chosen")
    milli = 1000.0
    figures = [
        Figure("pods pending to machines asked for", "s", max(one.seconds for one in asked), at_most=1.0),
        Figure("growing: loop held", "ms", milli * max(one.held_seconds for one in asked)),
        Figure("little used to nodes chosen", "s", max(one.seconds for one in going), at_most=1.0),
        Figure("shrinking: loop held", "ms", milli * max(one.held_seconds for one in going)),
        Figure("settled: loop held", "ms", milli * max(one.held_seconds for one in quiet)),
    ]
    facts = {"nodes": nodes, "pods": nodes * pods_a_node, "waiting": waiting, "machines": machines, "runs": runs}
    return Report(
        "nodegroups", "decide how many nodes ten groups have, packing in the worker process", figures, facts=facts
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nodegroups", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods-a-node", type=int, default=10)
    parser.add_argument("--waiting", type=int, default=5_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    disable_automatic_full_gc()
    found = report(options.nodes, options.pods_a_node, options.waiting, options.runs)
    found.print(as_json=options.json)
    return 0 if found.kept else 1


if __name__ == "__main__":
    sys.exit(main())
