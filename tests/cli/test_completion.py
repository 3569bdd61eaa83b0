"""Completion as a shell does it, and as kubectl asks for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.command import PLIMSOLL, environment, plimsoll

pytestmark = pytest.mark.process

PROGRAMS = PLIMSOLL.parent


# Calls the function that our script has registered for the command, as bash itself does when Tab is pressed.
_PRESS_TAB = r"""
source <(plimsoll completion bash)
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
$(complete -p plimsoll | sed 's/.*-F \([^ ]*\).*/\1/') plimsoll
printf '%s\n' "${COMPREPLY[@]}"
"""


def in_bash(*words: str) -> list[str]:
    """What bash offers for the last word, after having read our script."""
    path = f"{PROGRAMS}:/usr/local/bin:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "-euc", _PRESS_TAB, "bash", *words],
        env=environment(PATH=path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["plimsoll", "ex"], {"explain"}),
        (["plimsoll", "config", ""], {"check", "convert", "show"}),
        (["plimsoll", "manifests", "--read"], {"--read-only"}),
        (["plimsoll", "manifests", "-o", ""], {"yaml", "json"}),
    ],
)
def test_bash_completes(words: list[str], offered: set[str]):
    assert set(in_bash(*words)) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_asks_the_command_itself(shell: str):
    result = plimsoll("completion", shell)
    assert result.exit_code == 0
    assert f"_PLIMSOLL_COMPLETE={shell}_complete" in result.stdout


def test_another_shell_is_refused_with_those_that_there_are():
    result = plimsoll("completion", "csh")
    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in result.stderr


def test_what_kubectl_is_told():
    done = subprocess.run(
        [str(PROGRAMS / "kubectl_complete-plimsoll"), "config", "s"],
        env=environment(), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    *offered, directive = done.stdout.splitlines()
    assert [line.split("\t")[0] for line in offered] == ["show"]
    assert directive == ":4"


def kubectl(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = f"{PROGRAMS}:/usr/bin:/bin"
    return subprocess.run(
        [str(program), *arguments], env=environment(PATH=path), capture_output=True, text=True, timeout=60, check=False
    )


def test_the_real_kubectl_runs_and_completes_it(kubectl_program: Path):
    shown = kubectl(kubectl_program, "plimsoll", "explain", "--help")
    assert shown.returncode == 0
    assert shown.stdout.startswith("Usage: kubectl plimsoll explain ")
    assert kubectl(kubectl_program, "plimsoll", "version").stdout == kubectl(PLIMSOLL, "version").stdout
    assert "kubectl-plimsoll" in kubectl(kubectl_program, "plugin", "list").stdout
    offered = kubectl(kubectl_program, "__complete", "plimsoll", "sim").stdout
    assert "simulate" in offered


@pytest.fixture
def kubectl_program(control_plane) -> Path:
    found: Path = control_plane.binaries.path("kubectl")
    return found
