"""One operator process in a simulated cluster: transport, client, controllers and webhook. `World` starts and stops it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import msgspec

from plimsoll.config import Config
from plimsoll.controllers.build import controllers, observers, placement_settings
from plimsoll.controllers.placement.admission.classify import PodClassifier
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
from plimsoll.simulate.fault_transport import FaultTransport
from plimsoll.simulate.skewed_clock import SkewedClock
from plimsoll.webhook.admission_handler import LOOKING_SHARE, AdmissionHandler
from plimsoll.webhook.live_reads import LiveReads

_MANY = 1_000_000  # requests per second: no rate limit, since there is no real server to protect


def client_over(serve: Serve, clock: Clock, rng: Random) -> Client:
    """A client whose requests an in-process handler answers."""
    transport = InProcessTransport(serve, clock)
    return Client(
        Credentials("https://embedded.invalid"), clock=clock, qps=_MANY, burst=_MANY, rng=rng, transport=transport
    )


class OperatorProcess:
    def __init__(
        self,
        config: Config,
        clock: SkewedClock,
        transport: FaultTransport,
        rng: Random,
        *,
        providers: Mapping[str, Provider],
        decided: Callable[[str, Key, Decision], None],
    ) -> None:
        self.config = config
        self.clock = clock
        self.transport = transport
        self._rng = rng
        self.client = client_over(transport.serve, clock, rng)
        self.metrics = Metrics()
        made = controllers(config, clock=clock, token=self._token)
        self.operator = Operator(
            config, self.client, made, clock=clock, metrics=self.metrics, name=transport.who, rng=rng, providers=providers,
            observers=observers(config, made, self.client, providers, clock), on_decision=decided,
        )  # fmt: skip
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
        self._running = asyncio.create_task(self.operator.run(self._stop), name=f"operator {self.transport.who}")

    async def stop(self) -> ExitCode:
        """Stop as on SIGTERM: finish running work and release the lease."""
        self._stop.set()
        return await self._ended()

    async def crash(self) -> None:
        """Crash as on SIGKILL: no further request reaches the server."""
        self.transport.disconnect()
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

    # ── webhook ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def review(self, review: Json) -> Json:
        if self._admissions is None:
            raise RuntimeError("this process has no webhook")
        answer: dict[str, Any] = msgspec.json.decode(await self._admissions.review(msgspec.json.encode(review)))
        return answer

    def _webhook(self) -> AdmissionHandler:
        config = self.config
        admission = PodClassifier(
            self.operator.view, placement_settings(config), watch_namespaces=config.operator.watch_namespaces
        )
        seconds = config.webhook.timeout.total_seconds() * LOOKING_SHARE
        looks = LiveReads(self.client, admission, self.clock, seconds=seconds, counted=lambda *_: None)

        def count(one: Counter) -> None:
            self.metrics.count((one,))

        return AdmissionHandler(
            admission, looks, self.clock, look_seconds=seconds, leading=lambda: self.operator.leading, forwarding=None,
            count=count, nonce=self._token()[:8],
        )  # fmt: skip

    def _token(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"
