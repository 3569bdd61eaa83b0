"""Wires the dashboard and serves it inside an `async with` block, for a running operator or for any view."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import structlog

from plimsoll.config import Config
from plimsoll.controllers.build import controllers, placement_settings
from plimsoll.dashboard.auth import Gate, LoopbackGate, TokenGate, require_access_control
from plimsoll.dashboard.broadcaster import Broadcaster
from plimsoll.dashboard.cluster_snapshot import DashboardSnapshot, OperatorInfo
from plimsoll.dashboard.dry_run import DryRun
from plimsoll.dashboard.queries import ExplainQueries
from plimsoll.dashboard.server import DashboardServer
from plimsoll.dashboard.token_reviews import TokenReviewer
from plimsoll.explain.targets import Explainer
from plimsoll.kube.cache.store import View
from plimsoll.kube.client.client import Client
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.listen import CannotListenError
from plimsoll.runtime.operator import Operator

log = structlog.get_logger()


@asynccontextmanager
async def dashboard_of(
    operator: Operator, config: Config, client: Client, clock: Clock, identity: str
) -> AsyncIterator[DashboardServer | None]:
    """Serve as configured. If the address is taken, the operator continues without the dashboard."""
    if not config.dashboard.enabled:
        yield None
        return
    gate = gate_for(config, client, clock)
    async with AsyncExitStack() as stack:
        try:
            broadcaster = serve_dashboard(
                operator.view,
                config,
                clock,
                gate,
                cluster=client.cluster_name,
                identity=identity,
                leading=lambda: operator.leading,
            )
            server, snapshot = await stack.enter_async_context(broadcaster)
        except CannotListenError as error:
            log.error("cannot serve the dashboard", error=str(error))  # noqa: TRY400 - the message says what to do
            yield None
            return
        operator.subscribe(snapshot)
        log.info("serving the dashboard", url=server.url, access=config.dashboard.access)
        yield server


@asynccontextmanager
async def serve_dashboard(
    view: View, config: Config, clock: Clock, gate: Gate, *, cluster: str, identity: str, leading: Callable[[], bool]
) -> AsyncIterator[tuple[DashboardServer, DashboardSnapshot]]:
    """leading: whether an operator reports its decisions; otherwise a dry run decides for display."""
    made = controllers(config)
    names = tuple(controller.name for controller in made)
    snapshot = DashboardSnapshot(
        view,
        placement_settings(config).rules,
        clock,
        OperatorInfo(cluster, identity, config.operator.read_only_mode, names, leading),
        ports_per_container=60 if config.allocation.reduced_ports else 100,
    )
    broadcaster = Broadcaster(snapshot)
    dry_run = DryRun(
        made, view, clock, wanted=lambda: bool(broadcaster.clients) and not leading() and not view.stale, report=snapshot.acted,
        interval=config.controllers.reconcile_interval,
    )  # fmt: skip
    queries = ExplainQueries(Explainer(config, names), view, clock)
    async with DashboardServer(config.dashboard.host, config.dashboard.port, broadcaster, queries, gate) as server:
        tasks = [
            asyncio.create_task(work, name=f"dashboard: {name}")
            for name, work in (("snapshot", broadcaster.run()), ("dry run", dry_run.run()))
        ]
        for task in tasks:
            task.add_done_callback(_log_failure)
        try:
            yield server, snapshot
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def gate_for(config: Config, client: Client, clock: Clock) -> Gate:
    require_access_control(config)
    return TokenGate(TokenReviewer(client, clock)) if config.dashboard.access == "token" else LoopbackGate()


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("dashboard task failed", task=task.get_name(), exc_info=error)
