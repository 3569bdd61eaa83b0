"""`plimsoll cluster`: runs an embedded cluster to try things on."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from plimsoll.cli.signals import stop_on_signals
from plimsoll.embedded_cluster.api.admission import WebhookCall
from plimsoll.embedded_cluster.api.status import StatusError
from plimsoll.embedded_cluster.clocks import ScaledClock
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from plimsoll.embedded_cluster.controllers.context import ClusterTimings
from plimsoll.embedded_cluster.http import HttpServer, webhook_caller
from plimsoll.embedded_cluster.node_spec import NodeLineError, parse_node_line
from plimsoll.kube.types.durations import parse_duration
from plimsoll.runtime.clock import Clock, RealClock
from plimsoll.runtime.exit_codes import ExitCode
from plimsoll.runtime.logging import set_up_logging

_HEARTBEAT_SECONDS = 10.0
_NODES = tuple(f"1 zone={zone} class={kind}" for zone in "abc" for kind in ("spot", "on-demand"))


@click.command(
    epilog="""\b
Examples:
  plimsoll cluster
  plimsoll cluster --nodes "3 zone=a class=spot cpu=8" --nodes "2 zone=b class=on-demand"
  plimsoll cluster --kubeconfig ./kubeconfig --speed 60 --file web.yaml

\b
Words of a node line: zone= region= class=spot|on-demand|reserved type= cpu= memory= pods=
  storage= arch= os= prefix= label:KEY= annotation:KEY= resource:NAME= taint:KEY=VALUE:EFFECT
In another terminal: export KUBECONFIG=…, then kubectl, or `plimsoll run --kubeconfig …`.
"""
)
@click.option(
    "--nodes",
    "lines",
    metavar="LINE",
    multiple=True,
    help="Nodes, such as '3 zone=a class=spot cpu=8 memory=32Gi'. Repeatable. [default: one spot and one on-demand node in "
    "each of three zones]",
)
@click.option(
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Objects to create at the start, as YAML. Repeatable.",
)
@click.option("--kubeconfig", metavar="FILE", type=click.Path(path_type=Path), help="Where to write the kubeconfig.")
@click.option(
    "--port", metavar="NUMBER", type=click.IntRange(0, 65535), default=0, help="The port. [default: any free port]"
)
@click.option(
    "--speed",
    metavar="FACTOR",
    type=click.FloatRange(min=0.01),
    default=1.0,
    help="Simulated seconds per real second. [default: 1]",
)
@click.option(
    "--seed", metavar="NUMBER", type=int, default=0, help="Seed for generated names and random choices. [default: 0]"
)
@click.option(
    "--usage",
    metavar="FACTOR",
    type=click.FloatRange(min=0),
    default=0.5,
    help="Pod usage as a share of requests, as `kubectl top` shows it. [default: 0.5]",
)
@click.option(
    "--service",
    "services",
    metavar="NAMESPACE/NAME=HOST:PORT",
    multiple=True,
    help="The address of a Service that webhooks refer to. Repeatable.",
)
@click.option("--pod-start", metavar="DURATION", default="1s", help="Time from binding to Ready. [default: 1s]")
@click.option("--pod-stop", metavar="DURATION", default="1s", help="Time from deletion to removal. [default: 1s]")
def cluster(**options: Any) -> None:
    """Run a Kubernetes cluster inside this process, without containers, until it is stopped.

    It has an API server on loopback, the workload controllers, a scheduler, and simulated kubelets: pods do not really run.
    """
    set_up_logging("warning", "console")
    for line in options["lines"]:
        try:
            parse_node_line(line)
        except NodeLineError as error:
            raise click.BadParameter(str(error), param_hint="--nodes") from None
    times = ClusterTimings(
        pod_start=_seconds(options["pod_start"], "--pod-start"),
        pod_stop=_seconds(options["pod_stop"], "--pod-stop"),
        heartbeat=_HEARTBEAT_SECONDS,
    )
    services = dict(_service(text) for text in options["services"])
    documents = [(file, _documents(file)) for file in options["files"]]
    stop = asyncio.Event()
    runner = asyncio.Runner()
    with stop_on_signals(runner.get_loop(), stop), runner:
        passed_on = {name: options[name] for name in ("lines", "kubeconfig", "port", "speed", "seed", "usage")}
        code = runner.run(_run(stop, times, documents=documents, ask=webhook_caller(services), **passed_on))
    sys.exit(code)


def _seconds(text: str, option: str) -> float:
    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def _service(text: str) -> tuple[str, str]:
    found = re.fullmatch(r"([^/=]+/[^/=]+)=([^:=]+:\d+)", text)
    if found is None:
        message = (
            f"{text!r} is not a service address; expected, for example, plimsoll-system/plimsoll-webhook=127.0.0.1:9443"
        )
        raise click.BadParameter(message, param_hint="--service")
    return found[1], found[2]


async def _run(
    stop: asyncio.Event,
    times: ClusterTimings,
    *,
    ask: WebhookCall,
    lines: Sequence[str],
    documents: Sequence[tuple[Path, Sequence[Any]]],
    kubeconfig: Path | None,
    port: int,
    speed: float,
    seed: int,
    usage: float,
) -> ExitCode:
    clock: Clock = RealClock() if speed == 1 else ScaledClock(speed)
    with tempfile.TemporaryDirectory(prefix="plimsoll-cluster-") as directory:
        path = kubeconfig or Path(directory) / "kubeconfig"
        async with EmbeddedCluster(clock, seed=seed, times=times, ask=ask, pod_events=True) as made:
            made.api.measurements.share = usage
            try:
                async with HttpServer(made.api, port=port) as server:
                    for line in lines or _NODES:
                        await made.add_nodes(line)
                    for file, objects in documents:
                        await _create_all(made, file, objects)
                    server.write_kubeconfig(path)
                    click.echo(f"The cluster is at {server.url}. Press Ctrl-C to stop it.")
                    click.echo(f"export KUBECONFIG={path.resolve()}")
                    await stop.wait()
            except (OSError, _BadManifestError) as error:
                click.echo(f"plimsoll cluster: {error}", err=True)
                return ExitCode.BAD_CONFIGURATION
    return ExitCode.STOPPED


class _BadManifestError(Exception):
    """A file with objects that the cluster rejects; the message names file, object and reason."""


def _documents(file: Path) -> list[Any]:
    yaml = importlib.import_module("yaml")  # slow to import, and most starts have no files
    try:
        return [one for one in yaml.safe_load_all(file.read_text()) if one is not None]
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{file}: not valid YAML: {error}", param_hint="--file") from None


async def _create_all(made: EmbeddedCluster, file: Path, documents: Sequence[Any]) -> None:
    for document in documents:
        if not isinstance(document, dict):
            raise _BadManifestError(f"{file}: a document is not an object; expected apiVersion, kind and metadata")
        metadata = document.get("metadata") or {}
        named = f"{document.get('kind')} {metadata.get('name')}"
        kind = made.api.objects.catalogue.of_kind(str(document.get("apiVersion")), str(document.get("kind")))
        if kind is None:
            raise _BadManifestError(
                f"{file}: {named}: the cluster does not serve this kind in {document.get('apiVersion')!r}"
            )
        try:
            await made.create(kind, document, metadata.get("namespace", "default"))
        except StatusError as refusal:
            raise _BadManifestError(f"{file}: {named}: {refusal.message}") from None
