"""`plimsoll run`: the operator itself, in the foreground."""

from __future__ import annotations

import asyncio
import importlib
import sys
from pathlib import Path
from typing import Any

import click
import structlog

from plimsoll import __version__
from plimsoll.cli.configuration import effective, settings_options
from plimsoll.cli.stopping import stop_on_signals
from plimsoll.config import Config
from plimsoll.exit_codes import ExitCode
from plimsoll.logs import set_up_logging
from plimsoll.web.server import CannotListenError

log = structlog.get_logger()

EXIT_CODES = "\n".join(f"  {code.value}  {code.meaning}" for code in ExitCode)


@click.command(
    epilog=f"""\b
Examples:
  plimsoll run --dry-run                            watch, decide and tell; write nothing
  plimsoll run --config plimsoll.yaml --log-format json
  plimsoll run --context staging --controllers deletion-cost --set web.port=0

\b
Settings come from, weakest first: defaults, the file, PLIMSOLL_* variables, options.
`plimsoll config show` takes the same options and prints what they come to.

\b
Exit codes:
{EXIT_CODES}
A first SIGTERM or SIGINT stops within 10 s (else exit code 1); a second one ends at once (128 + its number).
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
    """Run the operator until it is told to stop."""
    config = effective(**options).config
    set_up_logging(config.logging.level, config.logging.format)
    stop = asyncio.Event()
    runner = asyncio.Runner()
    # The loop is closed inside the block: what its threads still do must end in time, too.
    with stop_on_signals(runner.get_loop(), stop), runner:
        code = runner.run(_run(config, kubeconfig=kubeconfig, context=context, stop=stop))
    sys.exit(code)


async def _run(config: Config, *, kubeconfig: Path | None, context: str | None, stop: asyncio.Event) -> int:
    log.info("starting", version=__version__, read_only=config.operator.read_only_mode)
    try:
        operator = importlib.import_module("plimsoll.operator")
        code: int = await operator.run(config, kubeconfig=kubeconfig, context=context, stop=stop)
    except CannotListenError as error:
        log.error(str(error))  # noqa: TRY400  (the message says it all, a traceback would bury it)
        return ExitCode.BAD_CONFIGURATION
    except Exception:
        log.exception("unexpected error")
        return ExitCode.UNEXPECTED_ERROR
    return code
