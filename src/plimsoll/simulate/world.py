"""The embedded cluster with the real operator on it, a cloud that makes its machines, and a witness; one clock and no socket."""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from random import Random
from typing import Self

from msgspec.structs import replace

from plimsoll.config import Config
from plimsoll.controllers.placement.webhook_configuration import namespace_labels, url_configuration, webhooks
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.admission import UnansweredError
from plimsoll.embedded_cluster.api.json_documents import Json, at
from plimsoll.embedded_cluster.cluster import Cluster
from plimsoll.embedded_cluster.controllers.context import Times
from plimsoll.providers.kwok.provider import KwokProvider
from plimsoll.providers.protocol import Provider
from plimsoll.runtime.clock import Clock
from plimsoll.simulate.cloud import Cloud
from plimsoll.simulate.custom_kinds import NODE_GROUPS
from plimsoll.simulate.fault_transport import Line
from plimsoll.simulate.invariants import Witness
from plimsoll.simulate.process import Process, client_over
from plimsoll.simulate.skewed_clock import LocalClock

_URL = "https://operator.invalid/mutate"  # nobody resolves it: the question is asked in this process
# What a container takes to start and to stop, where a scenario says nothing else.
TIMES = Times(node_ready=20.0, pod_start=5.0, pod_stop=3.0, watch=1800.0)
_SELDOM = timedelta(hours=2)


class World:
    """`async with World(config, clock) as world`: operators run inside of the block."""

    def __init__(
        self, config: Config, clock: Clock, *, seed: int = 0, times: Times = TIMES, election: bool = False
    ) -> None:
        """election: for more than one process. One alone needs none, and renewals would be most of what happens in a quiet day."""
        voting = replace(config.operator.leader_election, enabled=election)
        quiet = replace(config.operator, leader_election=voting, audit_log="")
        # Looking again without a reason guards against events that were lost. None is lost here.
        seldom = replace(config.controllers, reconcile_interval=max(config.controllers.reconcile_interval, _SELDOM))
        hooked = replace(config.webhook, mode="service")
        self.config = replace(config, operator=quiet, controllers=seldom, webhook=hooked)
        self.clock = clock
        self._rng = Random(seed)  # noqa: S311 - the same in every run is what is wanted
        self.cluster = Cluster(clock, seed=seed, times=times, ask=self._asked)
        self.processes: list[Process] = []
        self._started = 0

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        await self._stack.enter_async_context(self.cluster)
        self.witness = Witness(self.cluster, self.clock, self.config)
        await self.cluster.create(kinds.NAMESPACES, {"metadata": {"name": self.config.operator.namespace}})
        buyer = client_over(partial(self.cluster.serve, user_agent="cloud"), self.clock, self._rng)
        maker = KwokProvider(self.config.providers.kwok, buyer, self.config.operator.namespace, self.clock)
        self._stack.push_async_callback(maker.close)
        self.cloud = Cloud(maker, lambda: self.cluster.api.storage.revision)
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self.processes:
            await process.stop()
        await self._stack.aclose()

    # ── its operators ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def operator_process(self) -> Process:
        return self.processes[-1]

    async def start_operator(self) -> Process:
        """Bring in a process of the operator; what is in the cluster by then was there before it."""
        self._started += 1
        who = f"plimsoll/{self._started}"
        rng = Random(self._rng.getrandbits(64))  # noqa: S311 - as above; its own, so that two do not disturb each other
        line = Line(self.cluster.serve, who, rng, self.witness.heard)
        process = Process(
            self.config, LocalClock(self.clock), line, rng, providers=self._providers(who), decided=self.witness.decided
        )
        self.processes.append(process)
        if (
            self.cluster.api.storage.get(kinds.MUTATING_WEBHOOKS, "", url_configuration(self.config.operator.namespace))
            is None
        ):
            await self._register_webhook()
        process.start()
        return process

    async def end(self, process: Process, *, crash: bool = False) -> None:
        self.processes.remove(process)
        await (process.crash() if crash else process.stop())

    def _providers(self, who: str) -> dict[str, Provider]:
        """By every name that a NodeGroup may give: nothing is bought in a simulation."""
        named = {at(group, "spec", "provider", default="") for group in self.cluster.all(NODE_GROUPS)}
        names = sorted({"kwok", "vpsie", *named} - {""})
        return {name: self.cloud.account(name, who, self.witness) for name in names}

    async def pass_time(self, seconds: float) -> None:
        await self.clock.sleep(seconds)
        for process in self.processes:
            code = process.ended_by_itself()
            if code is not None:
                raise RuntimeError(f"the operator ended by itself: {code.name}")

    # ── its webhook ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _register_webhook(self) -> None:
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
        serving = [process for process in self.processes if process.serves_webhook]
        # A follower would ask the leader: the answer is the leader's wherever there is one.
        leading = [process for process in serving if process.operator.leading]
        if not serving:
            raise UnansweredError("no process of the operator is ready")
        return await (leading or serving)[0].review(review)
