"""Finding one's way."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from plimsoll import __version__
from plimsoll.cli import main
from plimsoll.runtime.exit_codes import ExitCode
from tests.cli.command import plimsoll


def commands(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = command.commands if isinstance(command, click.Group) else {}
    return [path, *(found for name, member in inner.items() for found in commands(member, (*path, name)))]


@pytest.mark.parametrize("path", commands(main))
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_every_command_explains_itself(path: tuple[str, ...], option: str) -> None:
    result = plimsoll(*path, option)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: {' '.join(('plimsoll', *path))}")


def test_version() -> None:
    assert plimsoll("--version").stdout == f"plimsoll {__version__}\n"
    assert plimsoll("version").stdout.startswith(f"plimsoll {__version__} (Python 3.")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["mainfests"], "Did you mean 'manifests'?"),
        (["config", "chek"], "Did you mean 'check'?"),
        (["run", "--dryrun"], "Did you mean '--dry-run'?"),
    ],
)
def test_a_slip_gets_a_suggestion(arguments: list[str], hint: str) -> None:
    result = plimsoll(*arguments)
    assert result.exit_code == ExitCode.BAD_CONFIGURATION
    assert result.stdout == ""
    assert hint in result.stderr


def test_the_help_of_run_names_every_exit_code() -> None:
    text = plimsoll("run", "--help").stdout
    for code in ExitCode:
        assert f"  {code.value}  {code.meaning}" in text


def test_exit_codes_keep_their_numbers() -> None:
    assert {code.name: code.value for code in ExitCode} == {
        "STOPPED": 0,
        "UNEXPECTED_ERROR": 1,
        "BAD_CONFIGURATION": 2,
        "LEADERSHIP_LOST": 3,
        "CLUSTER_REFUSED": 4,
        "VIEW_TOO_OLD": 5,
    }


@pytest.mark.process
def test_the_list_of_commands_has_them_all_and_loads_none() -> None:
    script = "import sys, plimsoll.cli as c; c.main(['--help'], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    *told, loaded = done.stdout.partition("Commands:\n")[2].splitlines()
    assert {line.split()[0] for line in told} == set(main.commands)
    assert not {"aiohttp", "numpy", "rich", "structlog"} & set(loaded.split())
