"""The command `plimsoll`, one file per subcommand. Each is imported when it is used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from typing import cast

import click

from plimsoll import __version__

# Name: module, attribute, and the line in `plimsoll --help`.
_COMMANDS = {
    "allocation": ("allocation", "allocation", "Show, migrate or restore drive and port allocations."),
    "cleanup": ("cleanup", "cleanup", "Remove what the operator left in a cluster."),
    "cluster": ("cluster", "cluster", "Run an embedded Kubernetes cluster in this process."),
    "completion": ("completion", "completion", "Print a shell completion script."),
    "config": ("config", "config", "Show, check or convert a configuration."),
    "dashboard": ("dashboard", "dashboard", "Serve the dashboard for a cluster or a snapshot."),
    "demo": ("demo", "demo", "Watch the operator work on an embedded cluster."),
    "explain": ("explain", "explain", "Explain the operator's decision about an object."),
    "manifests": ("manifests", "manifests", "Print the objects that install the operator."),
    "run": ("run", "run", "Run the operator."),
    "simulate": ("simulate", "simulate", "Simulate what would happen, without doing it."),
    "snapshot": ("snapshot", "snapshot", "Write a snapshot of a cluster to one file."),
    "validate": ("validate", "validate", "Check annotations and custom resources in files."),
    "version": ("version", "version", "Print the version and the platform."),
}


class _Commands(Mapping[str, click.Command]):
    """Imports a subcommand when it is used, so that `plimsoll version` starts fast."""

    def __getitem__(self, name: str) -> click.Command:
        module, command, _ = _COMMANDS[name]
        _load_structlog_alone()
        return cast("click.Command", getattr(importlib.import_module(f"plimsoll.cli.{module}"), command))

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


def _load_structlog_alone() -> None:
    """Keep structlog from importing rich for tracebacks that we never print: it takes a fifth of the start-up time."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]


class _Group(click.Group):
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the table above. Asking each command would import all of them, which takes seconds."""
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
    """Keep a cluster's capacity right and safe, and explain every decision."""


def kubectl_plugin() -> None:
    """The program `kubectl-plimsoll`, which `kubectl plimsoll` runs."""
    main(prog_name="kubectl plimsoll")
