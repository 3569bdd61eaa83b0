"""`plimsoll dashboard`: serves the dashboard without an operator, for a cluster or for files."""

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
from plimsoll.cli.connection import accepts_credentials, cluster_options, configuration
from plimsoll.cli.signals import stop_on_signals
from plimsoll.config import Config, ControllerName
from plimsoll.config.sources import ConfigurationError
from plimsoll.dashboard.auth import LoopbackGate
from plimsoll.dashboard.service import serve_dashboard
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import Forbidden, KubeError
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
  plimsoll dashboard                               the cluster of the current kubectl context; it writes nothing
  plimsoll dashboard --context staging --port 0
  plimsoll dashboard -f snapshot.yaml              the cluster at the time of the snapshot
"""
)
@click.option(
    "-f", "files", metavar="FILE", multiple=True, type=click.Path(path_type=Path),
    help="Show manifests or a snapshot instead of a cluster; - is standard input. Repeatable.",
)  # fmt: skip
@click.option(
    "--port", metavar="NUMBER", type=click.IntRange(0, 65535), default=8090, show_default=True,
    help="Port on 127.0.0.1; 0 takes any free port.",
)  # fmt: skip
@cluster_options
def dashboard(
    *, files: tuple[Path, ...], port: int, kubeconfig: Path | None, context: str | None, **options: Any
) -> None:
    """Serve the dashboard on this machine and show what the operator would decide."""
    set_up_logging("warning", "console")
    config = _read_only(configuration(**options), port)
    snapshot_view = _from_files(config := _with_every_controller(config), files) if files else None
    stop = asyncio.Event()
    runner = asyncio.Runner()
    try:
        with stop_on_signals(runner.get_loop(), stop), runner:
            if snapshot_view is not None:
                runner.run(_serve_snapshot(snapshot_view, config, stop))
            else:
                sys.exit(runner.run(_serve_cluster(config, stop, kubeconfig=kubeconfig, context=context)))
    except (KubeError, CannotListenError) as error:
        raise click.ClickException(str(error)) from error
    except ConfigurationError as error:
        raise BadConfiguration(error) from None


def _read_only(config: Config, port: int) -> Config:
    quiet = replace(config.operator, read_only_mode=True, audit_log="")
    here = replace(config.dashboard, enabled=True, host="127.0.0.1", port=port, access="loopback")
    return replace(config, operator=quiet, dashboard=here)


def _with_every_controller(config: Config) -> Config:
    """Enable every controller: files may contain objects of each, and none acts on files."""
    if config.controllers.enabled or config.operator.watch_namespaces:
        return config
    return replace(config, controllers=replace(config.controllers, enabled=_EVERY_CONTROLLER))


def _from_files(config: Config, files: Sequence[Path]) -> SnapshotView:
    stdin = sys.stdin.read() if any(str(file) == "-" for file in files) else None
    try:
        return from_documents(documents_in(files, stdin), watched_by(controllers_for(config)), datetime.now(UTC))
    except BadFileError as error:
        raise click.ClickException(str(error)) from None


class _FixedClock(RealClock):
    """Stands at the time of the snapshot, so that windows and cooldowns are those of that time."""

    def __init__(self, at: datetime) -> None:
        self._at = at

    def now(self) -> datetime:
        return self._at


async def _serve_snapshot(snapshot_view: SnapshotView, config: Config, stop: asyncio.Event) -> None:
    clock = _FixedClock(snapshot_view.at)
    dashboard_server = serve_dashboard(
        snapshot_view.view,
        config,
        clock,
        LoopbackGate(),
        cluster=f"snapshot of {snapshot_view.at:%Y-%m-%d %H:%M} UTC",
        identity="files",
        leading=lambda: False,
    )
    async with dashboard_server as (server, _):
        _print_address(server.url)
        await stop.wait()


async def _serve_cluster(
    config: Config, stop: asyncio.Event, *, kubeconfig: Path | None, context: str | None
) -> ExitCode:
    metrics, clock = Metrics(), RealClock()
    async with connect(config, metrics, kubeconfig=kubeconfig, context=context) as client:
        if not await accepts_credentials(client, stop):
            return ExitCode.STOPPED
        await _require_list_permission(client, config)
        # A read-only operator: it decides, and the dashboard shows its decisions.
        operator = Operator(config, client, controllers_for(config), clock=clock, metrics=metrics, name="dashboard")
        dashboard_server = serve_dashboard(
            operator.view,
            config,
            clock,
            LoopbackGate(),
            cluster=client.cluster_name,
            identity="plimsoll dashboard",
            leading=lambda: True,
        )
        async with dashboard_server as (server, snapshot):
            operator.subscribe(snapshot)
            _print_address(server.url)
            return await operator.run(stop)


async def _require_list_permission(client: Client, config: Config) -> None:
    """Raise KubeError if the user may not list pods: without them there is nothing to show."""
    namespaces = config.operator.watch_namespaces
    path = f"/api/v1/namespaces/{namespaces[0]}/pods" if namespaces else "/api/v1/pods"
    try:
        await client.read(path, {"limit": "1"})
    except Forbidden as error:
        raise KubeError(
            f"{client.server} does not let you list pods ({error}); the dashboard needs get, list and watch on nodes, pods and "
            "workloads, as the ClusterRole view and a role for nodes give them"
        ) from error


def _print_address(url: str) -> None:
    click.echo(f"The dashboard is at {url} Press Ctrl-C to stop it.")
