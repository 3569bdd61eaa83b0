"""`plimsoll explain`: the operator's decision about an object, and what it would do now."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import click
import msgspec
import yaml

from plimsoll.cli.config_options import BadConfiguration
from plimsoll.cli.connection import cluster_options, configuration, run_with_client
from plimsoll.cli.explain_text import lines
from plimsoll.config.sources import ConfigurationError
from plimsoll.explain.targets import Explainer, key_of
from plimsoll.snapshot.documents import BadFileError, documents_in
from plimsoll.snapshot.view import SnapshotView, from_documents, read_live


@click.command(
    epilog="""\b
Examples:
  plimsoll explain deployment/web -n shop          target, current split, blockers
  plimsoll explain pod/web-5d9c-abcde -n shop      why it is Pending, rule by rule
  plimsoll explain node/worker-3                   whether it can be removed, and where its pods would run
  plimsoll explain deploy/web -f web.yaml          before it is applied
  plimsoll explain deploy/web -f snapshot.yaml -o json
"""
)
@click.argument("thing", metavar="KIND/NAME")
@click.option(
    "-n",
    "--namespace",
    default="",
    metavar="NAME",
    help="The namespace. [default: found by name; if several match, default]",
)
@click.option(
    "-f", "files", metavar="FILE", multiple=True, type=click.Path(path_type=Path),
    help="Read manifests or a snapshot instead of a cluster; - is standard input. Repeatable.",
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
    """Explain the decision that the operator would make about KIND/NAME now. Nothing is written."""
    config = configuration(**options)
    try:
        explainer = Explainer(config)
    except ConfigurationError as error:
        raise BadConfiguration(error) from None
    now = datetime.now(UTC)
    snapshot_view = (
        _from_files(files, explainer, now)
        if files
        else run_with_client(
            lambda client: read_live(client, explainer.watches, now), config, kubeconfig=kubeconfig, context=context
        )
    )
    try:
        answer = explainer.explain(key_of(thing, namespace, snapshot_view.view), snapshot_view.view, snapshot_view.at)
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


def _from_files(files: tuple[Path, ...], explainer: Explainer, now: datetime) -> SnapshotView:
    stdin = sys.stdin.read() if any(str(file) == "-" for file in files) else None
    try:
        return from_documents(documents_in(files, stdin), explainer.watches, now)
    except BadFileError as error:
        raise click.ClickException(str(error)) from None
