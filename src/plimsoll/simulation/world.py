"""The embedded cluster with the real operator on it, on one clock and without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from random import Random
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from plimsoll.assembly import controllers, placement_settings
from plimsoll.clock import Clock
from plimsoll.config import Config
from plimsoll.decision import Controller, Count
from plimsoll.exit_codes import ExitCode
from plimsoll.kube.client import Client
from plimsoll.kube.credentials import Credentials
from plimsoll.kube.in_process import InProcessTransport, Reply
from plimsoll.metrics import Metrics
from plimsoll.operator import Operator
from plimsoll.placement.admission import Admission
from plimsoll.placement.webhook_configuration import namespace_labels, url_configuration, webhooks
from plimsoll.sim.api import kinds
from plimsoll.sim.api.admission import UnansweredError
from plimsoll.sim.api.documents import Json
from plimsoll.sim.cluster import Cluster
from plimsoll.sim.controllers.context import Times
from plimsoll.simulation.witness import Witness
from plimsoll.web.admissions import LOOKING_SHARE, Admissions
from plimsoll.web.live_looks import LiveLooks

_URL = "https://operator.invalid/mutate"  # nobody resolves it: the question is asked in this process
# What a container takes to start and to stop, where a scenario says nothing else.
TIMES = Times(node_ready=20.0, pod_start=5.0, pod_stop=3.0)
_SELDOM = timedelta(hours=2)
_MANY = 1_000_000  # calls a second: virtual time must not be spent waiting for a rate limit that protects a real server


class World:
    """`async with World(config, clock) as world`: the operator runs inside of the block."""

    def __init__(self, config: Config, clock: Clock, *, seed: int = 0, times: Times = TIMES) -> None:
        # One process alone needs no election; its renewals would be most of what happens in a quiet day.
        election = replace(config.operator.leader_election, enabled=False)
        quiet = replace(config.operator, leader_election=election, audit_log="")
        # Looking again without a reason guards against events that were lost. None is lost here.
        seldom = replace(config.controllers, reconcile_interval=max(config.controllers.reconcile_interval, _SELDOM))
        hooked = replace(config.webhook, mode="service")
        self.config = replace(config, operator=quiet, controllers=seldom, webhook=hooked)
        self.clock = clock
        self._rng = Random(seed)  # noqa: S311 - the same in every run is what is wanted
        self.cluster = Cluster(clock, seed=seed, times=times, ask=self._asked)
        self._stop = asyncio.Event()
        self._running: asyncio.Task[ExitCode] | None = None
        self._admissions: Admissions | None = None

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        await self._stack.enter_async_context(self.cluster)
        self.witness = Witness(self.cluster, self.clock, self.config)
        await self.cluster.create(kinds.NAMESPACES, {"metadata": {"name": self.config.operator.namespace}})
        transport = InProcessTransport(self._served, self.clock)
        self.client = await self._stack.enter_async_context(
            Client(
                Credentials("https://embedded.invalid"),
                clock=self.clock,
                qps=_MANY,
                burst=_MANY,
                rng=self._rng,
                transport=transport,
            )
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        if self._running is not None:
            await self._running
        await self._stack.aclose()

    async def start_operator(self) -> None:
        """Bring in the operator; what is in the cluster by then was there before it."""
        made: Sequence[Controller] = controllers(self.config)
        self.metrics = Metrics()
        self.operator = Operator(
            self.config, self.client, made, clock=self.clock, metrics=self.metrics, name="simulated", rng=self._rng
        )
        for reconciler in self.operator.reconcilers:
            reconciler.on_decision = self.witness.decided
        if any(controller.name == "placement" for controller in made):
            await self._register_webhook()
        self._running = asyncio.create_task(self.operator.run(self._stop), name="operator")

    async def pass_time(self, seconds: float) -> None:
        await self.clock.sleep(seconds)
        if self._running is not None and self._running.done():
            raise RuntimeError(f"the operator ended by itself: {self._running.result().name}")

    # ── how the two reach each other ─────────────────────────────────────────────────────────────────────────────────

    async def _served(self, method: str, path: str, params: Mapping[str, str], body: bytes, content_type: str) -> Reply:
        about = self.witness.asked(method, path, body)
        reply = await self.cluster.serve(method, path, params, body, content_type)
        self.witness.answered(method, path, about, reply.status)
        return reply

    async def _register_webhook(self) -> None:
        settings = placement_settings(self.config)
        admission = Admission(self.operator.view, settings, watch_namespaces=self.config.operator.watch_namespaces)
        seconds = self.config.webhook.timeout.total_seconds() * LOOKING_SHARE
        looks = LiveLooks(self.client, admission, self.clock, seconds=seconds, counted=lambda *_: None)

        def count(one: Count) -> None:
            self.metrics.count((one,))

        self._admissions = Admissions(
            admission, looks, self.clock, look_seconds=seconds,
            leading=lambda: self.operator.leading, forwarding=None, count=count,
        )  # fmt: skip
        hooks = webhooks(
            {"url": _URL},
            operator_namespace=self.config.operator.namespace,
            timeout_seconds=2,
            watch_namespaces=self.config.operator.watch_namespaces,
            namespace_labels=namespace_labels(self.config.placement.namespace_selector),
        )
        name = url_configuration(self.config.operator.namespace)
        await self.cluster.create(kinds.MUTATING_WEBHOOKS, {"metadata": {"name": name}, "webhooks": hooks})

    async def _asked(self, _url: str, _authority: bytes, review: Json, _seconds: float) -> Json:
        if self._admissions is None or self.operator.not_ready() is not None:
            raise UnansweredError("the operator is not ready")
        answer: dict[str, Any] = msgspec.json.decode(await self._admissions.review(msgspec.json.encode(review)))
        return answer
