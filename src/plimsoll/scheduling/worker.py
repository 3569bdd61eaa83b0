"""Runs packing in a separate process: a plan can take a second of CPU and must not delay webhook responses.

The process starts on first use and stays. It keeps no state between requests, so nothing can become stale: each request
carries its snapshot in a form that is cheap to send. A process that dies, takes too long or is no longer needed is
killed; the next request starts another.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import pickle
import resource
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from typing import Any, Self, TypeVar

from plimsoll.kube.types.core import Pod
from plimsoll.scheduling.model import ComingNode, Packing, Removal, Template
from plimsoll.scheduling.pack import PackingRequest, packing_request, solve
from plimsoll.scheduling.removal import removable
from plimsoll.scheduling.snapshot import Snapshot

T = TypeVar("T")
# Twenty times what a request for 5,000 nodes and 150,000 pods needs. It protects the operator's memory from a runaway
# plan.
MEMORY_BYTES = 4 * 2**30


class WorkerFailed(Exception):
    """There is no result: the process died, took too long or too much memory, or the computation raised. The message
    says which.
    """


class Worker:
    """Use from one event loop. Requests run one at a time, in order.

    A request that takes longer than `timeout_seconds` or more memory than `memory_bytes` fails. Cancelling its task
    kills the process; the next request starts a new one.
    """

    def __init__(self, *, timeout_seconds: float = 60.0, memory_bytes: int = MEMORY_BYTES) -> None:
        self.timeout_seconds = timeout_seconds
        self.memory_bytes = memory_bytes
        self._turn = asyncio.Lock()
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None

    async def pack(
        self,
        snapshot: Snapshot,
        pods: Iterable[Pod],
        templates: Iterable[Template] = (),
        *,
        coming: Iterable[ComingNode] = (),
        headroom: bool = True,
    ) -> Packing:
        """Like `pack.pack`. The snapshot may change as soon as this has been awaited for the first time."""
        with packing_request(snapshot, pods, templates, coming=coming, headroom=headroom) as request:
            message = serialize(request)
        found: Packing = await self._ask(message)
        return found

    async def removable(self, snapshot: Snapshot, node_names: Iterable[str]) -> list[Removal]:
        """Like `removal.removable`."""
        found: list[Removal] = await self._ask(serialize((snapshot, list(node_names))))
        return found

    async def run(self, task: Callable[[], T]) -> T:
        """Run any picklable callable in the process; it must need nothing but what it carries."""
        found: T = await self._ask(serialize(task))
        return found

    async def close(self) -> None:
        """Kill the process; a running request fails."""
        self._stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def _ask(self, message: bytes) -> Any:
        async with self._turn:
            connection = self._connected()
            exchange = asyncio.ensure_future(asyncio.to_thread(_exchange, connection, message))
            try:
                kind, content = pickle.loads(  # noqa: S301 - from our own process
                    await asyncio.wait_for(asyncio.shield(exchange), self.timeout_seconds)
                )
            except TimeoutError:
                raise WorkerFailed(f"no plan after {self.timeout_seconds:g} s: the worker process was killed") from None
            except (EOFError, OSError) as error:
                raise WorkerFailed(f"the worker process died before it replied: {error!r}") from error
            finally:
                if not exchange.done() or exchange.exception() is not None:
                    self._stop()
                    await asyncio.wait([exchange])  # the thread ends with the connection
                    exchange.exception()
            if kind == "failed":
                raise WorkerFailed(f"the computation failed: {content}")
            return content

    def _connected(self) -> Connection:
        if self._process is not None and not self._process.is_alive():
            self._stop()  # it died between two requests: nothing is lost
        return self._connection or self._start()

    def _start(self) -> Connection:
        # Spawned, not forked: a fork would inherit sockets, locks and the event loop of the operator.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._process = context.Process(
            target=serve_requests, args=(theirs, self.memory_bytes), name="plimsoll-scheduling", daemon=True
        )
        self._process.start()
        theirs.close()
        self._connection = ours
        return ours

    def _stop(self) -> None:
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if process is not None:
            process.kill()
            process.join()
            process.close()
        if connection is not None:
            connection.close()


def serialize(request: PackingRequest | tuple[Snapshot, list[str]] | Callable[[], Any]) -> bytes:
    return pickle.dumps(request, protocol=5)


def _exchange(connection: Connection, message: bytes) -> bytes:
    connection.send_bytes(message)
    return connection.recv_bytes()


def serve_requests(connection: Connection, memory_bytes: int) -> None:
    """Serve requests until the connection closes."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    gc.freeze()  # imported modules stay for good: no need to scan them
    gc.disable()  # what a request leaves behind is collected after the response
    while True:
        try:
            message = connection.recv_bytes()
        except EOFError:
            return
        try:
            reply = ("done", _work(pickle.loads(message)))  # noqa: S301 - from the process that started this one
        except Exception as error:  # noqa: BLE001 - the caller receives every error
            reply = ("failed", repr(error))
        connection.send_bytes(pickle.dumps(reply, protocol=5))
        del message, reply
        gc.collect()


def _work(request: PackingRequest | tuple[Snapshot, list[str]] | Callable[[], Any]) -> Any:
    if callable(request):
        return request()
    return solve(request) if isinstance(request, PackingRequest) else removable(*request)
