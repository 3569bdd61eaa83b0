"""The command `plimsoll`: one file a command."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, MutableMapping
from typing import cast

import click

from plimsoll import __version__

# By name: the module, and what the command is called in it.
_COMMANDS = {
    "allocation": ("allocation", "allocation"),
    "cluster": ("cluster", "cluster"),
    "config": ("config_cmd", "config"),
    "dashboard": ("dashboard", "dashboard"),
    "demo": ("demo", "demo"),
    "explain": ("explain", "explain"),
    "manifests": ("manifests", "manifests"),
    "run": ("run", "run"),
    "simulate": ("simulate", "simulate"),
    "snapshot": ("snapshot", "snapshot"),
    "validate": ("validate", "validate"),
    "version": ("version", "version"),
}


class _Commands(Mapping[str, click.Command]):
    """Loads a command when it is asked for: `plimsoll version` need not wait for all that `plimsoll run` stands on."""

    def __getitem__(self, name: str) -> click.Command:
        module, command = _COMMANDS[name]
        return cast("click.Command", getattr(importlib.import_module(f"plimsoll.cli.{module}"), command))

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


@click.group(
    commands=cast("MutableMapping[str, click.Command]", _Commands()),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", prog_name="plimsoll", message="%(prog)s %(version)s")
def main() -> None:
    """Keep a cluster's capacity right and safe, and say why."""
