"""The command `plimsoll`: one file a command."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from typing import cast

import click

from plimsoll import __version__

# By name: the module, what the command is called in it, and what the list of commands says of it.
_COMMANDS = {
    "allocation": ("allocation", "allocation", "Drives and ports that storage containers hold."),
    "cleanup": ("cleanup", "cleanup", "Take away what the operator has left in a cluster."),
    "cluster": ("cluster", "cluster", "Run a Kubernetes cluster in this process, without a container."),
    "completion": ("completion", "completion", "Print what lets a shell complete the command."),
    "config": ("config", "config", "Show the effective configuration, or check a file."),
    "dashboard": ("dashboard", "dashboard", "Serve the operator's page over a cluster or a snapshot."),
    "demo": ("demo", "demo", "Watch the operator at work, without a cluster of your own."),
    "explain": ("explain", "explain", "Say why an object is as it is: the operator's own decision."),
    "manifests": ("manifests", "manifests", "Print the objects that install the operator."),
    "run": ("run", "run", "Run the operator until it is told to stop."),
    "simulate": ("simulate", "simulate", "Say what would happen, without doing it."),
    "snapshot": ("snapshot", "snapshot", "Write what the controllers see of a cluster to one file."),
    "validate": ("validate", "validate", "Check annotations and custom resources in files."),
    "version": ("version", "version", "Print the version, and what it runs on."),
}


class _Commands(Mapping[str, click.Command]):
    """Loads a command when it is asked for: `plimsoll version` need not wait for all that `plimsoll run` stands on."""

    def __getitem__(self, name: str) -> click.Command:
        module, command, _ = _COMMANDS[name]
        _load_structlog_alone()
        return cast("click.Command", getattr(importlib.import_module(f"plimsoll.cli.{module}"), command))

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


def _load_structlog_alone() -> None:
    """structlog loads rich where it finds it, for tracebacks that nobody here prints: a fifth of the time of a start."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]


class _Group(click.Group):
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table above: to ask each command would load all of them, which takes seconds."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, _, said) in _COMMANDS.items()])


@click.group(
    cls=_Group,
    commands=cast("MutableMapping[str, click.Command]", _Commands()),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", prog_name="plimsoll", message="%(prog)s %(version)s")
def main() -> None:
    """Keep a cluster's capacity right and safe, and say why."""


def kubectl_plugin() -> None:
    """The program `kubectl-plimsoll`, which `kubectl plimsoll` calls: the same command under the name that was written."""
    main(prog_name="kubectl plimsoll")
