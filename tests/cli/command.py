"""Running the command as a person does: a process of its own, or inside this one where only the output matters."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import structlog
from click.testing import CliRunner, Result

from plimsoll.cli import main

PLIMSOLL = Path(sys.executable).parent / "plimsoll"


def environment(**variables: str) -> dict[str, str]:
    """This environment without settings that would leak into a test."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PLIMSOLL_")}
    return {**inherited, "NO_COLOR": "1", **variables}


def plimsoll(*arguments: str, env: Mapping[str, str] | None = None, stdin: str = "") -> Result:
    """The command inside this process; `result.stdout` and `result.stderr` are apart."""
    unset: dict[str, str | None] = {
        name: None for name in os.environ if name.startswith(("PLIMSOLL_", "POD_NAMESPACE"))
    }
    # A command that sets up its logs sets them up for the whole process, and for tests that listen to logs later.
    logs = structlog.get_config()
    try:
        return CliRunner().invoke(main, arguments, env={**unset, **(env or {})}, input=stdin, prog_name="plimsoll")
    finally:
        structlog.configure(**logs)


def start(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(PLIMSOLL), *arguments],
        env=environment(**(env or {})),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
