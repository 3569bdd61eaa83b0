"""The dashboard, wired: served while its block lasts, for an operator that runs or for a view at hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import structlog

from plimsoll.config import Config
from plimsoll.controllers.build import controllers, placement_settings
from plimsoll.dashboard.auth import Gate, LoopbackGate, TokenGate, refuse_to_be_open
from plimsoll.dashboard.broadcaster import Showing
from plimsoll.dashboard.cluster_snapshot import Picture, Shown
from plimsoll.dashboard.dry_run import SecondOpinion
from plimsoll.dashboard.queries import Asking
from plimsoll.dashboard.server import DashboardServer
from plimsoll.dashboard.token_reviews import Reviews
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
    """Serve as the configuration says. An address that is taken costs the window, not the work: the operator goes on."""
    if not config.dashboard.enabled:
        yield None
        return
    gate = gate_for(config, client, clock)
    async with AsyncExitStack() as stack:
        try:
            showing = serve(operator.view, config, clock, gate, identity=identity, leading=lambda: operator.leading)
            server, picture = await stack.enter_async_context(showing)
        except CannotListenError as error:
            log.error("the dashboard is not served", error=str(error))  # noqa: TRY400 - the message says what to do
            yield None
            return
        operator.show_to(picture)
        log.info("serving the dashboard", url=server.url, access=config.dashboard.access)
        yield server


@asynccontextmanager
async def serve(
    view: View, config: Config, clock: Clock, gate: Gate, *, identity: str, leading: Callable[[], bool]
) -> AsyncIterator[tuple[DashboardServer, Picture]]:
    """leading: whether someone hands us the decisions that are acted on; otherwise they are made here, to be shown."""
    asked = controllers(config)
    names = tuple(controller.name for controller in asked)
    picture = Picture(
        view,
        placement_settings(config).rules,
        clock,
        Shown(identity, config.operator.read_only_mode, names, leading),
        ports_per_container=60 if config.allocation.reduced_ports else 100,
    )
    showing = Showing(picture)
    opinion = SecondOpinion(
        asked, view, clock, wanted=lambda: bool(showing.clients) and not leading() and not view.stale, tell=picture.acted,
        interval=config.controllers.reconcile_interval,
    )  # fmt: skip
    asking = Asking(Explainer(config, names), view, clock)
    async with DashboardServer(config.dashboard.host, config.dashboard.port, showing, asking, gate) as server:
        tasks = [
            asyncio.create_task(work, name=f"dashboard: {name}")
            for name, work in (("picture", showing.run()), ("decisions", opinion.run()))
        ]
        for task in tasks:
            task.add_done_callback(_tell_failure)
        try:
            yield server, picture
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def gate_for(config: Config, client: Client, clock: Clock) -> Gate:
    refuse_to_be_open(config)
    return TokenGate(Reviews(client, clock)) if config.dashboard.access == "token" else LoopbackGate()


def _tell_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a part of the dashboard failed", part=task.get_name(), exc_info=error)
