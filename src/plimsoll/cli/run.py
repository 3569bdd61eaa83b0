"""`plimsoll run`: the operator itself, in the foreground."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import structlog

from plimsoll import __version__
from plimsoll.cli.config_options import controllers_for, effective, settings_options
from plimsoll.cli.connection import accepts_credentials
from plimsoll.cli.signals import stop_on_signals
from plimsoll.config import Config
from plimsoll.config.sources import ConfigurationError
from plimsoll.controllers.build import observers
from plimsoll.dashboard.service import dashboard_of
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import KubeError
from plimsoll.providers.registry import LoadedProviders, load_providers
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.decision import Controller
from plimsoll.runtime.exit_codes import ExitCode
from plimsoll.runtime.gc_tuning import scheduled_gc
from plimsoll.runtime.health_server import HealthServer
from plimsoll.runtime.listen import CannotListenError
from plimsoll.runtime.logging import set_up_logging
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import Operator, connect, identity
from plimsoll.webhook.certificate_sources import UnusableFilesError
from plimsoll.webhook.service import placement_webhook

log = structlog.get_logger()

EXIT_CODES = "\n".join(f"  {code.value}  {code.meaning}" for code in ExitCode)


@click.command(
    epilog=f"""\b
Examples:
  plimsoll run --dry-run                            watch, decide and report; write nothing
  plimsoll run --config plimsoll.yaml --log-format json
  plimsoll run --context staging --controllers deletion-cost --set web.port=0

\b
Settings come from, weakest first: defaults, the file, PLIMSOLL_* variables, options.
`plimsoll config show` takes the same options and prints the result.

\b
Exit codes:
{EXIT_CODES}
The first SIGTERM or SIGINT stops within 10 s (otherwise exit code 1); a second one exits at once (128 + its number).
"""
)
@settings_options
@click.option(
    "--kubeconfig",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The kubeconfig to use. [default: $KUBECONFIG, ~/.kube/config, the pod's service account]",
)
@click.option("--context", metavar="NAME", help="The kubeconfig's context to use.")
def run(*, kubeconfig: Path | None, context: str | None, **options: Any) -> None:
    """Run the operator until SIGTERM or SIGINT."""
    config = effective(**options).config
    controllers = controllers_for(config)
    set_up_logging(config.logging.level, config.logging.format)
    stop = asyncio.Event()
    runner = asyncio.Runner()
    # Close the loop inside the block: its threads must end in time, too.
    with stop_on_signals(runner.get_loop(), stop), runner:
        code = runner.run(_run(config, controllers, kubeconfig=kubeconfig, context=context, stop=stop))
    sys.exit(code)


async def _run(
    config: Config,
    controllers: Sequence[Controller],
    *,
    kubeconfig: Path | None,
    context: str | None,
    stop: asyncio.Event,
) -> ExitCode:
    names = [controller.name for controller in controllers]
    log.info("starting", version=__version__, controllers=names, read_only=config.operator.read_only_mode)
    metrics, name = Metrics(), identity()
    try:
        async with connect(config, metrics, kubeconfig=kubeconfig, context=context) as client:
            if not await accepts_credentials(client, stop):
                return ExitCode.STOPPED
            providers = _providers(config, controllers, client)
            try:
                operator = Operator(
                    config, client, controllers, clock=RealClock(), metrics=metrics, name=name, providers=providers.usable,
                    observers=observers(config, controllers, client, providers.usable, RealClock()),
                )  # fmt: skip
            except OSError as error:
                log.error("cannot write operator.auditLog", file=error.filename, error=error.strerror)  # noqa: TRY400
                return ExitCode.BAD_CONFIGURATION
            async with HealthServer(config.web.host, config.web.port, operator, metrics.registry) as server:
                log.info("serving health and metrics", host=config.web.host, port=server.port)
                async with (
                    scheduled_gc(lambda: operator.not_ready() is None, RealClock()),
                    dashboard_of(operator, config, client, RealClock(), name),
                    placement_webhook(config, controllers, client, operator, clock=RealClock(), identity=name),
                ):
                    try:
                        return await operator.run(stop)
                    finally:
                        await providers.close()
    except KubeError as error:
        log.error("cannot use the cluster", error=str(error))  # noqa: TRY400  (the message says what to do)
        return ExitCode.CLUSTER_REFUSED
    except (CannotListenError, UnusableFilesError) as error:
        log.error(str(error))  # noqa: TRY400
        return ExitCode.BAD_CONFIGURATION
    except ConfigurationError as error:
        for problem in error.problems:
            log.error("invalid configuration", problem=str(problem))  # noqa: TRY400
        return ExitCode.BAD_CONFIGURATION
    except Exception:
        log.exception("unexpected error")
        return ExitCode.UNEXPECTED_ERROR


def _providers(config: Config, controllers: Sequence[Controller], client: Client) -> LoadedProviders:
    """The enabled providers; none in read-only mode or without node groups."""
    home, wanted = config.operator.namespace, config.providers.enabled
    if config.operator.read_only_mode or not wanted or not any(one.name == "nodegroups" for one in controllers):
        return LoadedProviders()
    return load_providers(config.providers, client=client, namespace=home, clock=RealClock(), wanted=wanted)
