"""A world: the embedded cluster with the real operator, a simulated cloud and the invariant checker, on one clock, without sockets."""

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
from plimsoll.embedded_cluster.api.admission import WebhookCallError
from plimsoll.embedded_cluster.api.json_documents import Json, at
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from plimsoll.embedded_cluster.controllers.context import ClusterTimings
from plimsoll.providers.kwok.provider import KwokProvider
from plimsoll.providers.protocol import Provider
from plimsoll.runtime.clock import Clock
from plimsoll.simulate.cloud import Cloud
from plimsoll.simulate.custom_kinds import NODE_GROUPS
from plimsoll.simulate.fault_transport import FaultTransport
from plimsoll.simulate.invariants import InvariantChecker
from plimsoll.simulate.process import OperatorProcess, client_over
from plimsoll.simulate.skewed_clock import SkewedClock

_URL = "https://operator.invalid/mutate"  # never resolved: the review is handled in this process
# Default start and stop times of nodes and pods.
TIMES = ClusterTimings(node_ready=20.0, pod_start=5.0, pod_stop=3.0, watch=1800.0)
_RESYNC_INTERVAL = timedelta(hours=2)


class SimulationError(Exception):
    """The simulation itself failed, so that its results are not valid."""


class World:
    """`async with World(config, clock) as world`: operator processes run inside the block."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        *,
        seed: int = 0,
        times: ClusterTimings = TIMES,
        election: bool = False,
        pod_events: bool = False,
    ) -> None:
        """
        election: elect a leader, for several processes. A single process needs none, and renewals would dominate a quiet day.
        pod_events: record events of pods' lives, for `kubectl describe`.
        """
        voting = replace(config.operator.leader_election, enabled=election)
        quiet = replace(config.operator, leader_election=voting, audit_log="")
        # Periodic resync protects against lost events. Nothing is lost here, so it is rare.
        rare_resync = replace(
            config.controllers, reconcile_interval=max(config.controllers.reconcile_interval, _RESYNC_INTERVAL)
        )
        hooked = replace(config.webhook, mode="service")
        self.config = replace(config, operator=quiet, controllers=rare_resync, webhook=hooked)
        self.clock = clock
        self._rng = Random(seed)  # noqa: S311 - simulations must be reproducible
        self.cluster = EmbeddedCluster(clock, seed=seed, times=times, ask=self._review, pod_events=pod_events)
        self.processes: list[OperatorProcess] = []
        self._started = 0

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        await self._stack.enter_async_context(self.cluster)
        self.invariants = InvariantChecker(self.cluster, self.clock, self.config)
        await self.cluster.create(kinds.NAMESPACES, {"metadata": {"name": self.config.operator.namespace}})
        cloud_client = client_over(partial(self.cluster.serve, user_agent="cloud"), self.clock, self._rng)
        provider = KwokProvider(self.config.providers.kwok, cloud_client, self.config.operator.namespace, self.clock)
        self._stack.push_async_callback(provider.close)
        self.cloud = Cloud(provider, lambda: self.cluster.api.storage.revision)
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self.processes:
            await process.stop()
        await self._stack.aclose()

    # ── operator processes ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def operator_process(self) -> OperatorProcess:
        return self.processes[-1]

    async def start_operator(self) -> OperatorProcess:
        """Start an operator process; objects that exist by now were there before it."""
        self._started += 1
        who = f"plimsoll/{self._started}"
        rng = Random(self._rng.getrandbits(64))  # noqa: S311 - reproducible, and independent of other processes
        transport = FaultTransport(self.cluster.serve, who, rng, self.invariants.reply_received)
        process = OperatorProcess(
            self.config,
            SkewedClock(self.clock),
            transport,
            rng,
            providers=self._providers(who),
            decided=self.invariants.decided,
        )
        self.processes.append(process)
        if (
            self.cluster.api.storage.get(kinds.MUTATING_WEBHOOKS, "", url_configuration(self.config.operator.namespace))
            is None
        ):
            await self._register_webhook()
        process.start()
        return process

    async def end(self, process: OperatorProcess, *, crash: bool = False) -> None:
        self.processes.remove(process)
        await (process.crash() if crash else process.stop())

    def _providers(self, who: str) -> dict[str, Provider]:
        """The simulated cloud under every provider name that a NodeGroup uses."""
        named = {at(group, "spec", "provider", default="") for group in self.cluster.all(NODE_GROUPS)}
        names = sorted({"kwok", "vpsie", *named} - {""})
        return {name: self.cloud.account(name, who, self.invariants) for name in names}

    async def pass_time(self, seconds: float) -> None:
        await self.clock.sleep(seconds)
        for process in self.processes:
            code = process.ended_by_itself()
            if code is not None:
                raise RuntimeError(f"the operator exited: {code.name}")

    def require_no_errors(self) -> None:
        """Raise SimulationError if a controller of the embedded cluster failed: results after that are not to be trusted."""
        if self.cluster.errors:
            count, first = len(self.cluster.errors), self.cluster.errors[0]
            raise SimulationError(
                f"{count} error{'' if count == 1 else 's'} inside the embedded cluster; the first: {first}. The results are not "
                "valid; please report this with the snapshot or manifests that you used"
            )

    # ── webhook ──────────────────────────────────────────────────────────────────────────────────────────────────────

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

    async def _review(self, _url: str, _authority: bytes, review: Json, _seconds: float) -> Json:
        serving = [process for process in self.processes if process.serves_webhook]
        # A follower would forward the review, so the leader answers if there is one.
        leading = [process for process in serving if process.operator.leading]
        if not serving:
            raise WebhookCallError("no operator process is ready")
        return await (leading or serving)[0].review(review)
