"""Questions at a fixed rate, whatever becomes of the answers, as an API server asks them; timed from when each was due.

The asker shares the machine with the webhook, and what it takes itself is part of every time that it measures: it speaks as much HTTP
as it takes to know where an answer ends, and no more.
"""

from __future__ import annotations

import asyncio
import gc
import re
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.webhook.objects import WORKLOADS, review

PATIENCE_SECONDS = 2.0  # of the API server, by default
# At 500 a second and 2 ms each, one is busy on average. Without any limit a moment in which this process does not run is made
# up for by hundreds of handshakes, which cost it more than the questions themselves. Whoever waits for one is timed all the same.
CONNECTIONS = 100
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass
class Measured:
    seconds: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)  # how long after it was due a question was asked: our own doing
    wrong: int = 0  # no answer, or one without a class


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def measure(port: int, authority: str, *, rate: int, seconds: float, warm_up_seconds: float = 3.0) -> Measured:
    tls = ssl.create_default_context(cadata=authority)
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    total = int(rate * (seconds + warm_up_seconds))
    questions = [_request(review((number * 7919) % WORKLOADS, number)) for number in range(total)]
    measured, asker = Measured(), _Asker(port, tls)
    gc.collect()
    gc.freeze()
    gc.disable()  # the pauses of this process are not the server's
    start = time.perf_counter() + 0.1
    tasks = []
    for number, question in enumerate(questions):
        due = start + number / rate
        if (left := due - time.perf_counter()) > 0:
            await asyncio.sleep(left)
        counted = number >= rate * warm_up_seconds
        tasks.append(asyncio.create_task(_ask(asker, question, due, measured if counted else None)))
    await asyncio.gather(*tasks)
    asker.close()
    gc.enable()
    return measured


def _request(body: bytes) -> bytes:
    head = f"POST /mutate?timeout=2s HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + _END_OF_HEAD + body


async def _ask(asker: _Asker, question: bytes, due: float, measured: Measured | None) -> None:
    late = time.perf_counter() - due
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            answer = await asker.ask(question)
    except (OSError, TimeoutError):
        answer = b""
    if measured is not None:
        measured.seconds.append(time.perf_counter() - due)
        measured.late.append(late)
        measured.wrong += not (answer.startswith(b"HTTP/1.1 200 ") and b'"patch":' in answer)


class _Asker:
    """Connections that are kept, the one that was used last first."""

    def __init__(self, port: int, tls: ssl.SSLContext) -> None:
        self._port = port
        self._tls = tls
        self._free = asyncio.Semaphore(CONNECTIONS)
        self._idle: list[_Connection] = []

    async def ask(self, question: bytes) -> bytes:
        async with self._free:
            connection = self._idle.pop() if self._idle else await self._connect()
            try:
                answer = await connection.ask(question)
            except BaseException:
                connection.close()  # an answer that comes late must not be taken for the next one's
                raise
            self._idle.append(connection)
            return answer

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(_Connection, "127.0.0.1", self._port, ssl=self._tls)
        return made

    def close(self) -> None:
        for connection in self._idle:
            connection.close()


class _Connection(asyncio.Protocol):
    """One question at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("closed without an answer"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(_END_OF_HEAD)
        if head < 0 or self._answer is None or self._answer.done():
            return
        length = _LENGTH.search(self._received, 0, head)
        if length is not None and len(self._received) >= head + len(_END_OF_HEAD) + int(length[1]):
            self._answer.set_result(self._received)

    async def ask(self, question: bytes) -> bytes:
        assert self._transport is not None
        self._received = b""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(question)
        return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
