"""`plimsoll allocation`: show allocations, migrate from the hybrid scheme, restore a lost status."""

from __future__ import annotations

import click

from plimsoll.cli.allocation.migrate import migrate
from plimsoll.cli.allocation.restore import restore
from plimsoll.cli.allocation.show import show


@click.group(name="allocation", commands=[migrate, restore, show])
def allocation() -> None:
    """Show, migrate or restore drive and port allocations."""
