"""One process of the operator in a simulated cluster: its way to the API server, its controllers, its webhook."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import msgspec

from plimsoll.config import Config
from plimsoll.controllers.build import controllers, observers, placement_settings
from plimsoll.controllers.placement.admission.classify import Admission
from plimsoll.embedded_cluster.api.json_documents import Json
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import Credentials
from plimsoll.kube.client.in_process import InProcessTransport, Serve
from plimsoll.kube.types.resources import Key
from plimsoll.providers.protocol import Provider
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.decision import Counter, Decision
from plimsoll.runtime.exit_codes import ExitCode
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import Operator
from plimsoll.simulate.fault_transport import Line
from plimsoll.simulate.skewed_clock import LocalClock
from plimsoll.webhook.admission_handler import LOOKING_SHARE, Admissions
from plimsoll.webhook.live_reads import LiveLooks

_MANY = 1_000_000  # calls a second: virtual time must not be spent waiting for a rate limit that protects a real server


def client_over(serve: Serve, clock: Clock, rng: Random) -> Client:
    """A client whose calls are answered in this process."""
    transport = InProcessTransport(serve, clock)
    return Client(
        Credentials("https://embedded.invalid"), clock=clock, qps=_MANY, burst=_MANY, rng=rng, transport=transport
    )


class Process:
    def __init__(
        self,
        config: Config,
        clock: LocalClock,
        line: Line,
        rng: Random,
        *,
        providers: Mapping[str, Provider],
        decided: Callable[[str, Key, Decision], None],
    ) -> None:
        self.config = config
        self.clock = clock
        self.line = line
        self._rng = rng
        self.client = client_over(line.serve, clock, rng)
        self.metrics = Metrics()
        made = controllers(config, clock=clock, token=self._token)
        self.operator = Operator(
            config, self.client, made, clock=clock, metrics=self.metrics, name=line.who, rng=rng, providers=providers,
            observers=observers(config, made, self.client, providers, clock),
        )  # fmt: skip
        for reconciler in self.operator.reconcilers:
            reconciler.on_decision = decided
        self._admissions = self._webhook() if any(one.name == "placement" for one in made) else None
        self._stop = asyncio.Event()
        self._running: asyncio.Task[ExitCode] | None = None

    @property
    def serves_webhook(self) -> bool:
        return self._admissions is not None and self.alive and self.operator.not_ready() is None

    @property
    def alive(self) -> bool:
        return self._running is not None and not self._running.done()

    def start(self) -> None:
        self._running = asyncio.create_task(self.operator.run(self._stop), name=f"operator {self.line.who}")

    async def stop(self) -> ExitCode:
        """As on SIGTERM: what is in hand is finished, and the lease given back."""
        self._stop.set()
        return await self._ended()

    async def crash(self) -> None:
        """As on SIGKILL: from now on nothing that it does reaches the server."""
        self.line.cut()
        if self._running is not None:
            self._running.cancel()
        await self._ended()

    async def _ended(self) -> ExitCode:
        code = ExitCode.STOPPED
        if self._running is not None:
            (found,) = await asyncio.gather(self._running, return_exceptions=True)
            code = found if isinstance(found, ExitCode) else ExitCode.UNEXPECTED_ERROR
        await self.client.close()
        return code

    def ended_by_itself(self) -> ExitCode | None:
        if self._running is None or not self._running.done() or self._stop.is_set() or self._running.cancelled():
            return None
        return self._running.result()

    # ── its webhook ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def review(self, review: Json) -> Json:
        if self._admissions is None:
            raise RuntimeError("this process has no webhook")
        answer: dict[str, Any] = msgspec.json.decode(await self._admissions.review(msgspec.json.encode(review)))
        return answer

    def _webhook(self) -> Admissions:
        config = self.config
        admission = Admission(
            self.operator.view, placement_settings(config), watch_namespaces=config.operator.watch_namespaces
        )
        seconds = config.webhook.timeout.total_seconds() * LOOKING_SHARE
        looks = LiveLooks(self.client, admission, self.clock, seconds=seconds, counted=lambda *_: None)

        def count(one: Counter) -> None:
            self.metrics.count((one,))

        return Admissions(
            admission, looks, self.clock, look_seconds=seconds, leading=lambda: self.operator.leading, forwarding=None,
            count=count, nonce=self._token()[:8],
        )  # fmt: skip

    def _token(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"
