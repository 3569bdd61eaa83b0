"""`plimsoll explain`: why a workload, node or pod is as it is, and what the operator would do about it now."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import click
import msgspec
import yaml

from plimsoll.cli.config_options import BadConfiguration
from plimsoll.cli.connection import ask, cluster_options, configuration
from plimsoll.cli.explain_text import lines
from plimsoll.config.sources import ConfigurationError
from plimsoll.explain.targets import Explainer, key_of
from plimsoll.snapshot.documents import BadFileError, documents_in
from plimsoll.snapshot.view import Still, from_documents, read_live


@click.command(
    epilog="""\b
Examples:
  plimsoll explain deployment/web -n shop          what is wanted, what is there, what holds it up
  plimsoll explain pod/web-5d9c-abcde -n shop      why it is Pending, rule by rule
  plimsoll explain node/worker-3                   whether it could go, and where its pods would run
  plimsoll explain deploy/web -f web.yaml          before it is applied anywhere
  plimsoll explain deploy/web -f snapshot.yaml -o json
"""
)
@click.argument("thing", metavar="KIND/NAME")
@click.option(
    "-n",
    "--namespace",
    default="",
    metavar="NAME",
    help="Its namespace. [default: the one that has it; of several, default]",
)
@click.option(
    "-f", "files", metavar="FILE", multiple=True, type=click.Path(path_type=Path),
    help="Look at manifests or a snapshot instead of a cluster; - is standard input. Repeatable.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@cluster_options
def explain(
    *,
    thing: str,
    namespace: str,
    files: tuple[Path, ...],
    output: Literal["text", "json", "yaml"],
    kubeconfig: Path | None,
    context: str | None,
    **options: Any,
) -> None:
    """Say why KIND/NAME is as it is: the very decision that the operator would make now. Nothing is written."""
    config = configuration(**options)
    try:
        explainer = Explainer(config)
    except ConfigurationError as error:
        raise BadConfiguration(error) from None
    now = datetime.now(UTC)
    still = (
        _from_files(files, explainer, now)
        if files
        else ask(
            lambda client: read_live(client, explainer.watches, now), config, kubeconfig=kubeconfig, context=context
        )
    )
    try:
        answer = explainer.explain(key_of(thing, namespace, still.view), still.view, still.at)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="KIND/NAME") from None
    except LookupError as error:
        raise click.ClickException(str(error.args[0])) from None
    plain = msgspec.to_builtins(answer)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
    elif output == "yaml":
        click.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), nl=False)
    else:
        for line in lines(answer):
            click.echo(line)


def _from_files(files: tuple[Path, ...], explainer: Explainer, now: datetime) -> Still:
    stdin = sys.stdin.read() if any(str(file) == "-" for file in files) else None
    try:
        return from_documents(documents_in(files, stdin), explainer.watches, now)
    except BadFileError as error:
        raise click.ClickException(str(error)) from None
