"""`plimsoll completion`: completion scripts for shells, and completion of the kubectl plug-in."""

from __future__ import annotations

import sys

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

_SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
_ASKS = "_PLIMSOLL_COMPLETE"
# kubectl's plug-in protocol: one suggestion per line, then a directive. 4: do not suggest file names.
_NO_FILES = ":4"


@click.command(
    epilog="""\b
Bash, in ~/.bashrc:
  source <(plimsoll completion bash)

\b
Zsh, in ~/.zshrc, after compinit:
  source <(plimsoll completion zsh)

\b
Fish:
  plimsoll completion fish > ~/.config/fish/completions/plimsoll.fish

\b
kubectl completes `kubectl plimsoll …` if kubectl_complete-plimsoll is on the PATH; it is installed with plimsoll.
"""
)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(context: click.Context, *, shell: str) -> None:
    """Print a script that lets SHELL complete commands, options and their values."""
    script = _SHELLS[shell](context.find_root().command, {}, "plimsoll", _ASKS)
    # `source()` would check the version of the local bash, but the script may be for another machine.
    click.echo(script.source_template % script.source_vars())


def complete_for_kubectl() -> None:
    """The program `kubectl_complete-plimsoll WORD…`; the last word is the one to complete."""
    from plimsoll.cli import main  # noqa: PLC0415 - it imports this module

    *words, incomplete = sys.argv[1:] or [""]
    for item in ShellComplete(main, {}, "kubectl plimsoll", _ASKS).get_completions(words, incomplete):
        click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(_NO_FILES)
