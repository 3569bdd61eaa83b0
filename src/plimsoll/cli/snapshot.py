"""`plimsoll snapshot`: write what the controllers see of a cluster to one file."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec
import yaml

from plimsoll.cli.config_options import BadConfiguration
from plimsoll.cli.connection import cluster_options, configuration, run_with_client
from plimsoll.config.sources import ConfigurationError
from plimsoll.explain.targets import Explainer
from plimsoll.snapshot.view import read_live
from plimsoll.snapshot.writer import kinds
from plimsoll.snapshot.writer import snapshot as written

_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@click.command(
    epilog="""\b
Examples:
  plimsoll snapshot -o cluster.yaml                input for explain -f
  plimsoll snapshot --hash-names -o cluster.json   to share: names hashed, structure kept
"""
)
@click.option("-o", "--output", "path", metavar="FILE", type=click.Path(path_type=Path), default="-", show_default=True,
              help="Output file; JSON if the name ends in .json, otherwise YAML. - is standard output.")  # fmt: skip
@click.option("--hash-names", is_flag=True, help="Hash names, namespaces and label values consistently.")
@cluster_options
def snapshot(*, path: Path, hash_names: bool, kubeconfig: Path | None, context: str | None, **options: Any) -> None:
    """Write what the controllers see of a cluster to one file. It contains no Secrets, environment variables or commands."""
    config = configuration(**options)
    try:
        watches = Explainer(config).watches
    except ConfigurationError as error:
        raise BadConfiguration(error) from None
    now = datetime.now(UTC)
    snapshot_view = run_with_client(
        lambda client: read_live(client, watches, now), config, kubeconfig=kubeconfig, context=context
    )
    document = written(snapshot_view, hashed=hash_names)
    text = (
        msgspec.json.encode(document).decode() + "\n"
        if path.suffix == ".json"
        else yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    )
    if str(path) == "-":
        sys.stdout.write(text)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds(document).items())
    click.echo(f"{path}: {counts or 'no objects'}", err=True)
