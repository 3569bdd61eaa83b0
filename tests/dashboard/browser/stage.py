"""A dashboard over a made-up snapshot: the real server, its headers and its stream, in a thread of its own.

The snapshots are made up because the page must also bear what no cluster of ours produces: names that an API server would
refuse, a server that goes away and returns, fifty thousand pods at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

import msgspec

from plimsoll.dashboard.auth import LoopbackGate
from plimsoll.dashboard.broadcaster import Broadcaster
from plimsoll.dashboard.cluster_snapshot import DashboardSnapshot
from plimsoll.dashboard.queries import ExplainQueries
from plimsoll.dashboard.server import DashboardServer

T = TypeVar("T")
_KINDS = ("nodes", "workloads", "groups", "pending", "allocations")


class _Made:
    """In the place of the snapshot that is drawn from a cluster."""

    def __init__(self, whole: dict[str, Any]) -> None:
        self.record = whole
        self.changes: list[dict[str, Any]] = []
        self.clock_ahead = timedelta(0)

    @property
    def version(self) -> int:
        return int(self.record["version"])

    @property
    def stale(self) -> bool:
        return bool(self.changes)

    @property
    def now(self) -> datetime:
        return datetime.now(UTC) + self.clock_ahead

    async def renew(self) -> bytes:
        change = self.changes.pop(0)
        self.record["version"] += 1
        for kind in _KINDS:
            for name, record in change.get(kind, {}).items():
                if record is None:
                    self.record[kind].pop(name, None)
                else:
                    self.record[kind][name] = record
        self.record["decisions"].extend(change.get("decisions", []))
        told = {"version": self.version, "at": self.now, "whole": False, "operator": self.record["operator"]}
        return msgspec.json.encode({**told, **change})

    def whole(self) -> bytes:
        return msgspec.json.encode(self.record)

    def sample(self) -> None:
        """Its histories are made up, too."""


class _Answers:
    """In the place of the explainer: it knows one object, and no other."""

    async def explain(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        if name == "gone":
            raise LookupError(f"there is no {kind} {namespace}/{name}")
        return {
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "asOf": datetime.now(UTC),
            "reason": {"code": "Blocked", "message": f"{name} may not move now"},
            "steps": [f"evict {name}"],
            "blockers": [{"code": "WindowClosed", "message": "the window is closed", "until": datetime.now(UTC)}],
            "guards": [{"guard": "every replica ready", "open": True, "message": "", "until": None}],
            "errors": [],
            "target": {"spot": 2, "onDemand": 2},
            "usage": [{"resource": "cpu", "requested": "3", "allocatable": "4", "percent": 75.0}],
        }


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


class Stage:
    """Shows a snapshot until it is closed. `leave` and `come_back` are an operator that is away for a while."""

    def __init__(self, whole: dict[str, Any]) -> None:
        self._made = _Made(whole)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="dashboard of a test")
        self._thread.start()
        self._port = 0
        self._open: AsyncExitStack | None = None
        self.come_back()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/"

    @property
    def snapshot(self) -> dict[str, Any]:
        return self._made.record

    def set_clock_ahead(self, by: timedelta) -> None:
        """Of the clock of whoever looks."""
        self._made.clock_ahead = by

    def tell(self, **change: Any) -> int:
        """Tell a change, such as `nodes={"a": None}`; the version that it will be."""

        async def add() -> int:
            self._made.changes.append(change)
            return self._made.version + len(self._made.changes)

        return self._do(add())

    def leave(self) -> None:
        async def close() -> None:
            if self._open is not None:
                await self._open.aclose()
            self._open = None

        self._do(close())

    def come_back(self, whole: dict[str, Any] | None = None) -> None:
        if whole is not None:
            self._made = _Made(whole)

        async def start() -> None:
            async with AsyncExitStack() as stack:
                broadcaster = Broadcaster(cast("DashboardSnapshot", self._made))
                queries = cast("ExplainQueries", _Answers())
                server = DashboardServer("127.0.0.1", self._port, broadcaster, queries, LoopbackGate())
                await stack.enter_async_context(server)
                self._port = server.port
                following = asyncio.create_task(broadcaster.run())
                stack.push_async_callback(_end, following)
                self._open = stack.pop_all()

        self._do(start())

    def close(self) -> None:
        self.leave()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=60)
        self._loop.close()

    def _do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=60)
