"""Packing in a process of its own: a plan takes a second of computing now and then, and must not hold up a webhook's answer.

The process is started when it is first needed and stays. It knows nothing from one question to the next, so nothing can go stale in
it: each question brings its snapshot along, in a form that costs little to hand over. A process that dies, takes too long or
is no longer waited for is ended, and the next question starts another.
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
# Twenty times what a question about 5,000 nodes and 150,000 pods takes: a plan that runs wild must not take the operator's memory.
MEMORY_BYTES = 4 * 2**30


class WorkerFailed(Exception):
    """There is no answer: the process died, took too long or too much memory, or the computation raised. The message says which."""


class Worker:
    """Use from one event loop. Questions are answered one at a time, in the order in which they were asked.

    A question that takes longer than `timeout_seconds` or more memory than `memory_bytes` fails; one whose task is cancelled ends the
    process. The next question has a new one.
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
        """As `pack.pack`. The snapshot may change as soon as this has been awaited for the first time."""
        with packing_request(snapshot, pods, templates, coming=coming, headroom=headroom) as request:
            message = serialize(request)
        found: Packing = await self._ask(message)
        return found

    async def removable(self, snapshot: Snapshot, node_names: Iterable[str]) -> list[Removal]:
        """As `removable.removable`."""
        found: list[Removal] = await self._ask(serialize((snapshot, list(node_names))))
        return found

    async def run(self, task: Callable[[], T]) -> T:
        """Whatever can be handed over and called there; it must need nothing but what it carries."""
        found: T = await self._ask(serialize(task))
        return found

    async def close(self) -> None:
        """End the process; a question that is under way fails."""
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
                raise WorkerFailed(f"no plan after {self.timeout_seconds:g} s: the worker process was ended") from None
            except (EOFError, OSError) as error:
                raise WorkerFailed(f"the worker process died before it answered: {error!r}") from error
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
            self._stop()  # it died between two questions: nothing is lost
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
    """What the process does until the connection closes."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    gc.freeze()  # what is imported stays for good: nothing to look through at every collection
    gc.disable()  # and what a question leaves behind is collected after the answer
    while True:
        try:
            message = connection.recv_bytes()
        except EOFError:
            return
        try:
            reply = ("done", _work(pickle.loads(message)))  # noqa: S301 - from the process that started this one
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who asked must hear of it
            reply = ("failed", repr(error))
        connection.send_bytes(pickle.dumps(reply, protocol=5))
        del message, reply
        gc.collect()


def _work(request: PackingRequest | tuple[Snapshot, list[str]] | Callable[[], Any]) -> Any:
    if callable(request):
        return request()
    return solve(request) if isinstance(request, PackingRequest) else removable(*request)
