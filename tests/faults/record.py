"""Everything that passed through the proxy, in order: what tests assert on, and what a failing test prints."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.eventually import PATIENCE_SECONDS, NeverCameError
from tests.faults.calls import Call


@dataclass
class Exchange:
    """One request and what became of it."""

    ordinal: int
    call: Call
    started: float  # monotonic seconds since the record began
    ended: float | None = None
    told: int | None = None  # the status that the operator was given; None while it waits, and for ever if it got none
    answered: int | None = None  # the status that the API server gave; None if it was never asked, or never answered
    reply: bytes = b""  # the API server's answer, kept for writes alone
    events: int = 0  # lines that a watch has passed on
    faults: list[str] = field(default_factory=list)

    @property
    def sent(self) -> bool:
        return self.answered is not None

    @property
    def applied(self) -> bool:
        """The store changed, or the server said that it is as asked; whatever the operator was told."""
        return self.call.writes and self.answered is not None and self.answered < 300

    @property
    def result(self) -> Any:
        """The API server's answer to a write, decoded."""
        return msgspec.json.decode(self.reply)

    def __str__(self) -> str:
        took = "…" if self.ended is None else f"{(self.ended - self.started) * 1000:.0f} ms"
        told = "—" if self.told is None else str(self.told)
        outcome = told if self.told == self.answered else f"{told} (server: {self.answered or 'not asked'})"
        watched = f", {self.events} events" if self.call.verb == "watch" else ""
        faults = f"  ⚡ {', '.join(self.faults)}" if self.faults else ""
        return f"#{self.ordinal:<4} {self.started:8.3f} s  {self.call.link:<8} {self.call} → {outcome}, {took}{watched}{faults}"


class Record:
    """The exchanges of one test, over all links and restarts."""

    def __init__(self) -> None:
        self._exchanges: list[Exchange] = []
        self._changed = asyncio.Event()
        self._began = time.monotonic()

    def __iter__(self) -> Iterator[Exchange]:
        return iter(self._exchanges)

    def __len__(self) -> int:
        return len(self._exchanges)

    def __str__(self) -> str:
        return "\n".join(map(str, self._exchanges)) or "(no request)"

    def seconds(self) -> float:
        return time.monotonic() - self._began

    def begin(self, call: Call) -> Exchange:
        exchange = Exchange(len(self._exchanges) + 1, call, self.seconds())
        self._exchanges.append(exchange)
        self.touch()
        return exchange

    def end(self, exchange: Exchange) -> None:
        exchange.ended = self.seconds()
        self.touch()

    def touch(self) -> None:
        """Wake those who wait for a condition on the record."""
        self._changed.set()

    def of(self, matches: Callable[[Call], bool], *, since: int = 0) -> list[Exchange]:
        """The exchanges whose call matches, later than ordinal `since`."""
        return [exchange for exchange in self._exchanges if exchange.ordinal > since and matches(exchange.call)]

    def works(self, *, since: int = 0) -> list[Exchange]:
        """The writes that carry out decisions: not the leases and events of the runtime itself."""
        return self.of(lambda call: call.works, since=since)

    async def until(self, holds: Callable[[Record], bool], *, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until a condition on the record holds; the deadline is for a test that has failed."""
        try:
            async with asyncio.timeout(seconds):
                while not holds(self):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise NeverCameError(f"not within {seconds} s; the requests were:\n{self}") from None
