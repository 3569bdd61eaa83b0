"""`plimsoll allocation`: look at what containers hold, clean up after the former scheme, and bring back what was lost."""

from __future__ import annotations

import click

from plimsoll.cli.allocation.migrate import migrate
from plimsoll.cli.allocation.restore import restore
from plimsoll.cli.allocation.show import show


@click.group(name="allocation", commands=[migrate, restore, show])
def allocation() -> None:
    """Drives and ports that storage containers hold."""
