"""Questions at a fixed rate, whatever becomes of the answers, as an API server asks them; timed from when each was due."""

from __future__ import annotations

import asyncio
import gc
import ssl
import time
from dataclasses import dataclass, field

import aiohttp
import msgspec

from benchmarks.webhook.objects import WORKLOADS, review

PATIENCE_SECONDS = 2.0  # of the API server, by default
# At 500 a second and 2 ms each, one is busy on average. Without any limit a moment in which this process does not run is made
# up for by hundreds of handshakes, which cost it more than the questions themselves. Whoever waits for one is timed all the same.
CONNECTIONS = 100


@dataclass
class Measured:
    seconds: list[float] = field(default_factory=list)
    wrong: int = 0  # no answer, or one without a class

    def percentile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def measure(port: int, authority: str, *, rate: int, seconds: float, warm_up_seconds: float = 3.0) -> Measured:
    tls = ssl.create_default_context(cadata=authority)
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    total = int(rate * (seconds + warm_up_seconds))
    bodies = [review((number * 7919) % WORKLOADS, number) for number in range(total)]
    measured = Measured()
    gc.collect()
    gc.freeze()
    gc.disable()  # the pauses of this process are not the server's
    patience = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
    connector = aiohttp.TCPConnector(limit=CONNECTIONS, ssl=tls)
    async with aiohttp.ClientSession(connector=connector, timeout=patience) as session:
        start = time.perf_counter() + 0.1
        tasks = []
        for number, body in enumerate(bodies):
            due = start + number / rate
            if (left := due - time.perf_counter()) > 0:
                await asyncio.sleep(left)
            counted = number >= rate * warm_up_seconds
            tasks.append(asyncio.create_task(_ask(session, port, body, due, measured if counted else None)))
        await asyncio.gather(*tasks)
    gc.enable()
    return measured


async def _ask(session: aiohttp.ClientSession, port: int, body: bytes, due: float, measured: Measured | None) -> None:
    right = False
    try:
        async with session.post(f"https://127.0.0.1:{port}/mutate?timeout=2s", data=body) as response:
            answer = await response.read()
            right = response.status == 200 and b'"patch":' in answer
    except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError):
        pass
    if measured is not None:
        measured.seconds.append(time.perf_counter() - due)
        measured.wrong += not right
