"""`plimsoll manifests`: print the objects of an installation, for clusters without Helm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from plimsoll import __version__
from plimsoll.cli.config_options import (
    BadConfiguration,
    as_written,
    config_option,
    controllers_for,
    controllers_option,
    set_option,
)
from plimsoll.config import Config
from plimsoll.config.load import DEFAULT, Flag, Loaded
from plimsoll.config.settings import SETTINGS, build_config
from plimsoll.config.sources import ConfigurationError
from plimsoll.controllers.allocation.crd import crd as weka_container_crd
from plimsoll.controllers.nodegroups.crds import node_group_crds
from plimsoll.dashboard.auth import require_access_control
from plimsoll.manifests.install import manifests as all_manifests
from plimsoll.manifests.objects import Manifest, as_yaml
from plimsoll.runtime.operator import watched_by

# Defaults that differ between a terminal and a cluster. A file or an option overrides them.
IN_A_CLUSTER = {"web.host": "*", "webhook.host": "*", "webhook.mode": "service", "logging.format": "json"}


@click.group(
    invoke_without_command=True,
    epilog="""\b
Examples:
  plimsoll manifests | kubectl apply --server-side -f -
  plimsoll manifests crds | kubectl apply --server-side -f -                   first, for controllers with their own kinds
  plimsoll manifests --read-only | kubectl apply --server-side -f -            observe only, without write permissions
  plimsoll manifests --namespace capacity --config plimsoll.yaml -o json
""",
)
@config_option
@set_option
@controllers_option
@click.option("--namespace", metavar="NAME", help="Namespace of the operator. [default: plimsoll-system]")
@click.option("--image", metavar="IMAGE", default=f"plimsoll:{__version__}", show_default=True)
@click.option(
    "--monitoring",
    is_flag=True,
    help="Add a ServiceMonitor and alerts for the Prometheus operator, and a Grafana dashboard.",
)
@click.option("--read-only", is_flag=True, help="Set readOnlyMode and grant no write permissions.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
@click.pass_context
def manifests(
    context: click.Context,
    *,
    file: Path | None,
    settings: Sequence[Flag],
    controllers: str | None,
    namespace: str | None,
    image: str,
    read_only: bool,
    monitoring: bool,
    output: str,
) -> None:
    """Print the objects that install the operator, with exactly the permissions that its controllers use.

    The file and the options become the operator's configuration in the cluster. Environment variables are ignored.
    """
    if context.invoked_subcommand:
        return
    named = [
        Flag("operator.namespace", namespace, "--namespace") if namespace is not None else None,
        Flag("controllers.enabled", controllers, "--controllers") if controllers is not None else None,
        Flag("operator.readOnlyMode", "true", "--read-only") if read_only else None,
    ]
    flags = [*settings, *(flag for flag in named if flag)]
    loaded = as_written(file, flags)
    config = _in_a_cluster(loaded)
    for key, port, who in (
        ("web.port", config.web.port, "probes"),
        ("webhook.port", config.webhook.port, "the Service"),
        ("dashboard.port", config.dashboard.port, "port-forward"),
    ):
        if port == 0:
            raise click.UsageError(
                f"{key}: 0 selects a random port, but in a cluster {who} must know it; set 1 to 65535"
            )
    if config.webhook.mode == "url":
        raise click.UsageError("webhook.mode: url is for an operator outside the cluster; expected service or off")
    running = controllers_for(config)
    try:
        require_access_control(config)
        found = all_manifests(
            config, running, seen=watched_by(running), settings=_written(loaded), image=image, monitored=monitoring
        )
    except ConfigurationError as error:
        raise BadConfiguration(error) from None
    _print(found, output)


@manifests.command()
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def crds(*, output: str) -> None:
    """Print the CustomResourceDefinitions of the controllers, for a cluster that does not have them.

    Do not replace a CRD that another operator installed: Plimsoll works with it.
    """
    _print([*node_group_crds(), weka_container_crd()], output)


def _print(found: Sequence[Manifest], output: str) -> None:
    if output == "json":
        everything = {"apiVersion": "v1", "kind": "List", "items": found}
        click.echo(msgspec.json.format(msgspec.json.encode(everything), indent=2).decode())
    else:
        click.echo("---\n".join(as_yaml(manifest) for manifest in found), nl=False)


def _in_a_cluster(loaded: Loaded) -> Config:
    """The configuration with the defaults of a cluster."""
    values = {key: setting.value_in(loaded.config) for key, setting in SETTINGS.items()}
    values |= {key: value for key, value in IN_A_CLUSTER.items() if loaded.origins[key] == DEFAULT}
    return build_config(values)


def _written(loaded: Loaded) -> dict[str, Any]:
    """The settings that were set explicitly, so that the defaults of a later version take effect."""
    said = {
        key: SETTINGS[key].form.plain(SETTINGS[key].value_in(loaded.config))
        for key, origin in loaded.origins.items()
        if origin != DEFAULT
    }
    tree: dict[str, Any] = {}
    for key, value in (IN_A_CLUSTER | said).items():
        *sections, name = key.split(".")
        section = tree
        for part in sections:
            section = section.setdefault(part, {})
        section[name] = value
    return tree
