from __future__ import annotations

import platform

import click

from plimsoll import __version__


@click.command()
def version() -> None:
    """Print the version and the platform."""
    click.echo(f"plimsoll {__version__} (Python {platform.python_version()}, {platform.system()} {platform.machine()})")
