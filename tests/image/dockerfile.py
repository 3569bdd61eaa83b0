"""The Dockerfile as a list of instructions, and its first stage carried out in a directory: there need be no container engine."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Instruction(NamedTuple):
    word: str
    rest: str


def instructions(text: str) -> list[Instruction]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def stages(text: str) -> list[list[Instruction]]:
    """What comes before the first FROM, and then each stage, which begins with its own."""
    found: list[list[Instruction]] = [[]]
    for one in instructions(text):
        if one.word == "FROM":
            found.append([])
        found[-1].append(one)
    return found


def variables(stage: list[Instruction]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in stage:
        if one.word in ("ARG", "ENV"):
            found |= dict(pair.split("=", 1) for pair in shlex.split(one.rest))
    return found


def perform(stage: list[Instruction], directory: Path, tools: Path, changed: Mapping[str, str]) -> None:
    """COPY and RUN, as written; `changed` are variables that say where things go. uv is there already, in `tools`."""
    directory.mkdir()
    told = variables(stage) | dict(changed)
    inherited = {
        name: value for name, value in os.environ.items() if name in ("HOME", "XDG_CACHE_HOME", "UV_CACHE_DIR")
    }
    inherited |= {
        name: value for name, value in os.environ.items() if name.startswith(("UV_INDEX", "UV_DEFAULT", "SSL_", "PIP_"))
    }
    environment = {**inherited, **told, "PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin"}
    for one in stage:
        if one.word == "COPY":
            *sources, target = one.rest.split()
            for source in sources:
                _copy(ROOT / source, directory / target)
        elif one.word == "RUN" and "pip install" not in one.rest:
            done = subprocess.run(
                ["bash", "-euc", one.rest],
                cwd=directory,
                env=environment,
                capture_output=True,
                text=True,
                timeout=250,
                check=False,
            )
            assert done.returncode == 0, f"{one.rest}\n{done.stdout}{done.stderr}"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target / source.name if target.is_dir() else target)
