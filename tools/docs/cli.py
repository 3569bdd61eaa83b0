"""`docs/cli.md`: the help of every command, and the exit codes."""

from __future__ import annotations

from collections.abc import Iterator

import click

from plimsoll import cli
from plimsoll.runtime.exit_codes import ExitCode

INTRODUCTION = """\
<!-- Generated from src/plimsoll/cli by `make docs`; edit the commands, not this page. -->
# The command line
"""

AFTER_EXIT_CODES = """
On the first SIGTERM or SIGINT the operator finishes the work in progress, releases its lease and exits within ten seconds; otherwise
the process is ended with exit code 1. A second signal ends the process at once, with exit code 128 plus the signal number.
"""


def cli_page() -> str:
    parts = [INTRODUCTION]
    for context in _commands(cli.main, None, "plimsoll"):
        parts += [f"## `{context.command_path}`\n", f"```text\n{context.get_help().rstrip()}\n```\n"]
    parts += ["## Exit codes\n", "| code | meaning |\n|---|---|"]
    parts += [f"| {code.value} | {code.meaning} |" for code in ExitCode]
    return "\n".join(parts) + "\n" + AFTER_EXIT_CODES


def _commands(command: click.Command, parent: click.Context | None, name: str) -> Iterator[click.Context]:
    # A fixed width: the page must not depend on the terminal that it was written from.
    context = click.Context(
        command, info_name=name, parent=parent, terminal_width=100, help_option_names=["-h", "--help"]
    )
    yield context
    if isinstance(command, click.Group):
        for inner in sorted(command.commands):
            yield from _commands(command.commands[inner], context, inner)
