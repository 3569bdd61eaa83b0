"""The process that is measured: holds every Pod, Node, ReplicaSet and Deployment, and says what that took.

It prints a JSON object once it is in sync. Then it does as its standard input says: "hold" stops its event loop until
"go COUNT STAMP" arrives, so that changes pile up in the socket; when COUNT pods carry STAMP, it prints another object.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from benchmarks.informer.objects import TOUCHED
from plimsoll.kube.cache.reflector import Reflector
from plimsoll.kube.cache.store import Store
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import load_credentials
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import DEPLOYMENTS, NODES, PODS, REPLICASETS, Resource
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.gc_tuning import collect_and_freeze, disable_automatic_full_gc

_TICK_SECONDS = 0.005


class Ticker:
    """Wants to run every few milliseconds, and notes how long it was kept from it."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.worst_seconds = 0.0
        self.worst_busy_seconds = 0.0  # of this thread's own computing: other processes take no part in it
        self._last = time.perf_counter(), time.thread_time()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            now = time.perf_counter(), time.thread_time()
            self.worst_seconds = max(self.worst_seconds, now[0] - self._last[0] - _TICK_SECONDS)
            self.worst_busy_seconds = max(self.worst_busy_seconds, now[1] - self._last[1])
            self._last = now

    def figures(self) -> dict[str, float]:
        return {"stall_seconds": self.worst_seconds, "busy_stall_seconds": self.worst_busy_seconds}


class Touched:
    """Counts the pods that carry a stamp."""

    def __init__(self, store: Store[Any]) -> None:
        self.stamp = ""
        self.names: set[tuple[str, str]] = set()
        store.listen(self._hear)

    def _hear(self, _: Resource[Any], __: KubeObject | None, after: KubeObject | None) -> None:
        if after is not None and self.stamp and after.annotations.get(TOUCHED) == self.stamp:
            self.names.add((after.namespace, after.name))


# The three ways to read a list (docs/decisions/002); the first is the default.
LISTINGS: dict[str, dict[str, Any]] = {"whole": {}, "paged": {"page_size": 500}, "streamed": {"streaming": True}}


async def main(kubeconfig: Path, listing: str, started: float) -> None:
    disable_automatic_full_gc()
    clock = RealClock()
    stores: list[Store[Any]] = [Store(kind) for kind in (PODS, NODES, REPLICASETS, DEPLOYMENTS)]
    touched = Touched(stores[0])
    ticker = Ticker()
    async with Client(load_credentials(kubeconfig), clock=clock, qps=1e6, burst=1_000_000) as client:
        reflectors = [Reflector(client, store, clock, **LISTINGS[listing]) for store in stores]
        tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
        tasks.append(asyncio.create_task(ticker.run()))
        await until(lambda: all(store.synced for store in stores))
        synced = {"sync_seconds": time.time() - started, "cpu_seconds": time.process_time()}
        collect_and_freeze()
        await asyncio.sleep(2 * _TICK_SECONDS)  # so that the ticker sees what that took
        say({**synced, **ticker.figures(), **memory(), "pods": len(stores[0])})
        while (await asyncio.to_thread(sys.stdin.readline)).strip() == "hold":
            say({"holding": True})
            _, count, touched.stamp = sys.stdin.readline().split()  # blocks the loop, as is meant
            touched.names.clear()
            ticker.reset()
            await until(lambda: len(touched.names) >= int(count))  # noqa: B023 (it is awaited here)
            say(ticker.figures())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 (what is measured shall not know that it is)
        await asyncio.sleep(_TICK_SECONDS)


def memory() -> dict[str, int]:
    lines = Path("/proc/self/status").read_text().splitlines()
    values = {name: value for name, _, value in (line.partition(":") for line in lines)}
    # getrusage would tell the parent's peak, if that was higher.
    return {"resident_bytes": _kilobytes(values["VmRSS"]), "peak_bytes": _kilobytes(values["VmHWM"])}


def _kilobytes(value: str) -> int:
    return int(value.split(maxsplit=1)[0]) * 1024


def say(figures: dict[str, Any]) -> None:
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], float(os.environ["STARTED"])))
