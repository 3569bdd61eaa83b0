"""`plimsoll dashboard`: the operator's page without the operator, over a cluster or over files."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from plimsoll.cli.config_options import BadConfiguration, controllers_for
from plimsoll.cli.connection import cluster_options, configuration
from plimsoll.cli.signals import stop_on_signals
from plimsoll.config import Config, ControllerName
from plimsoll.config.sources import ConfigurationError
from plimsoll.dashboard.auth import LoopbackGate
from plimsoll.dashboard.service import serve_dashboard
from plimsoll.kube.client.errors import KubeError
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.exit_codes import ExitCode
from plimsoll.runtime.listen import CannotListenError
from plimsoll.runtime.logging import set_up_logging
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import Operator, connect, watched_by
from plimsoll.snapshot.documents import BadFileError, documents_in
from plimsoll.snapshot.view import SnapshotView, from_documents

_EVERY_CONTROLLER: tuple[ControllerName, ...] = ("placement", "deletion-cost", "nodegroups", "allocation")


@click.command(
    epilog="""\b
Examples:
  plimsoll dashboard                               of the cluster that kubectl talks to; nothing is written there
  plimsoll dashboard --context staging --port 0
  plimsoll dashboard -f snapshot.yaml              as of the moment at which the snapshot was taken
"""
)
@click.option(
    "-f", "files", metavar="FILE", multiple=True, type=click.Path(path_type=Path),
    help="Look at manifests or a snapshot instead of a cluster; - is standard input. Repeatable.",
)  # fmt: skip
@click.option(
    "--port", metavar="NUMBER", type=click.IntRange(0, 65535), default=8090, show_default=True,
    help="Where on 127.0.0.1; 0 takes any port that is free.",
)  # fmt: skip
@cluster_options
def dashboard(
    *, files: tuple[Path, ...], port: int, kubeconfig: Path | None, context: str | None, **options: Any
) -> None:
    """Serve the dashboard on this machine until it is told to stop, and show what the operator would decide."""
    set_up_logging("warning", "console")
    config = _only_looking(configuration(**options), port)
    snapshot_view = _from_files(config := _with_every_controller(config), files) if files else None
    stop = asyncio.Event()
    runner = asyncio.Runner()
    try:
        with stop_on_signals(runner.get_loop(), stop), runner:
            if snapshot_view is not None:
                runner.run(_over(snapshot_view, config, stop))
            else:
                sys.exit(runner.run(_of_a_cluster(config, stop, kubeconfig=kubeconfig, context=context)))
    except (KubeError, CannotListenError) as error:
        raise click.ClickException(str(error)) from error
    except ConfigurationError as error:
        raise BadConfiguration(error) from None


def _only_looking(config: Config, port: int) -> Config:
    quiet = replace(config.operator, read_only_mode=True, audit_log="")
    here = replace(config.dashboard, enabled=True, host="127.0.0.1", port=port, access="loopback")
    return replace(config, operator=quiet, dashboard=here)


def _with_every_controller(config: Config) -> Config:
    """Files may hold objects of any controller, and none of them acts on files."""
    if config.controllers.enabled or config.operator.watch_namespaces:
        return config
    return replace(config, controllers=replace(config.controllers, enabled=_EVERY_CONTROLLER))


def _from_files(config: Config, files: Sequence[Path]) -> SnapshotView:
    stdin = sys.stdin.read() if any(str(file) == "-" for file in files) else None
    try:
        return from_documents(documents_in(files, stdin), watched_by(controllers_for(config)), datetime.now(UTC))
    except BadFileError as error:
        raise click.ClickException(str(error)) from None


class _StandingClock(RealClock):
    """It is still the moment at which the files were written: windows and cooldowns were those of then."""

    def __init__(self, at: datetime) -> None:
        self._at = at

    def now(self) -> datetime:
        return self._at


async def _over(snapshot_view: SnapshotView, config: Config, stop: asyncio.Event) -> None:
    clock = _StandingClock(snapshot_view.at)
    broadcaster = serve_dashboard(
        snapshot_view.view, config, clock, LoopbackGate(), identity="files", leading=lambda: False
    )
    async with broadcaster as (server, _):
        _tell(server.url)
        await stop.wait()


async def _of_a_cluster(
    config: Config, stop: asyncio.Event, *, kubeconfig: Path | None, context: str | None
) -> ExitCode:
    metrics, clock = Metrics(), RealClock()
    async with connect(config, metrics, kubeconfig=kubeconfig, context=context) as client:
        # An operator that only watches: its decisions are the ones that are shown, and its door is shut.
        operator = Operator(config, client, controllers_for(config), clock=clock, metrics=metrics, name="dashboard")
        broadcaster = serve_dashboard(
            operator.view, config, clock, LoopbackGate(), identity=client.server, leading=lambda: True
        )
        async with broadcaster as (server, snapshot):
            operator.subscribe(snapshot)
            _tell(server.url)
            return await operator.run(stop)


def _tell(url: str) -> None:
    click.echo(f"The dashboard is at {url} Press Ctrl-C to end it.")
