"""The command `plimsoll`: one file a command."""

from __future__ import annotations

import click

from plimsoll import __version__
from plimsoll.cli.config_cmd import config
from plimsoll.cli.manifests import manifests
from plimsoll.cli.run import run
from plimsoll.cli.version import version


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "--version", prog_name="plimsoll", message="%(prog)s %(version)s")
def main() -> None:
    """Keep a cluster's capacity right and safe, and say why."""


for command in (run, config, manifests, version):
    main.add_command(command)
