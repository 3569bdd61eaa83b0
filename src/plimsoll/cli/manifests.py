"""`plimsoll manifests`: what to apply to a cluster that has no Helm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from plimsoll import __version__
from plimsoll.cli.config_options import BadConfiguration, as_written, config_option, controllers_option, set_option
from plimsoll.cli.controllers import controllers_for
from plimsoll.config import Config
from plimsoll.config.load import DEFAULT, Flag, Loaded
from plimsoll.config.settings import SETTINGS, build_config
from plimsoll.config.sources import ConfigurationError
from plimsoll.controllers.allocation.crd import crd as weka_container_crd
from plimsoll.controllers.nodegroups.crds import crds as node_group_crds
from plimsoll.dashboard.auth import refuse_to_be_open
from plimsoll.manifests.install import manifests as all_manifests
from plimsoll.manifests.objects import Manifest, as_yaml
from plimsoll.runtime.operator import watched_by

# What differs between a terminal and a cluster; a file or an option that says otherwise is followed.
IN_A_CLUSTER = {"web.host": "*", "webhook.host": "*", "webhook.mode": "service", "logging.format": "json"}


@click.group(
    invoke_without_command=True,
    epilog="""\b
Examples:
  plimsoll manifests | kubectl apply --server-side -f -
  plimsoll manifests crds | kubectl apply --server-side -f -                   before it, where a controller needs kinds of its own
  plimsoll manifests --read-only | kubectl apply --server-side -f -            look first: without any right to write
  plimsoll manifests --namespace capacity --config plimsoll.yaml -o json
""",
)
@config_option
@set_option
@controllers_option
@click.option("--namespace", metavar="NAME", help="Where the operator runs. [default: plimsoll-system]")
@click.option("--image", metavar="IMAGE", default=f"plimsoll:{__version__}", show_default=True)
@click.option(
    "--monitoring",
    is_flag=True,
    help="Add a ServiceMonitor and alerts, for the Prometheus operator, and a dashboard for Grafana.",
)
@click.option("--read-only", is_flag=True, help="Only watch: readOnlyMode, and no right to write anything.")
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
    """Print the objects that install the operator, with exactly the rights that its controllers use.

    The file and the options become the operator's own configuration in the cluster; the environment is not looked at.
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
        ("dashboard.port", config.dashboard.port, "whoever forwards it"),
    ):
        if port == 0:
            raise click.UsageError(
                f"{key}: 0 takes any port, but in a cluster {who} must know it; set one from 1 to 65535"
            )
    if config.webhook.mode == "url":
        raise click.UsageError("webhook.mode: url is for an operator outside of the cluster; expected service or off")
    running = controllers_for(config)
    try:
        refuse_to_be_open(config)
        found = all_manifests(
            config, running, seen=watched_by(running), settings=_written(loaded), image=image, monitored=monitoring
        )
    except ConfigurationError as error:
        raise BadConfiguration(error) from None
    _print(found, output)


@manifests.command()
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def crds(*, output: str) -> None:
    """Print the kinds that controllers bring along, for a cluster that does not have them.

    One that is installed by others already is used as it is: do not replace it.
    """
    _print([*node_group_crds(), weka_container_crd()], output)


def _print(found: Sequence[Manifest], output: str) -> None:
    if output == "json":
        everything = {"apiVersion": "v1", "kind": "List", "items": found}
        click.echo(msgspec.json.format(msgspec.json.encode(everything), indent=2).decode())
    else:
        click.echo("---\n".join(as_yaml(manifest) for manifest in found), nl=False)


def _in_a_cluster(loaded: Loaded) -> Config:
    """The configuration that the operator will find itself with."""
    values = {key: setting.value_in(loaded.config) for key, setting in SETTINGS.items()}
    values |= {key: value for key, value in IN_A_CLUSTER.items() if loaded.origins[key] == DEFAULT}
    return build_config(values)


def _written(loaded: Loaded) -> dict[str, Any]:
    """What was set, and nothing that is a default: a later version's defaults then take effect by themselves."""
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
