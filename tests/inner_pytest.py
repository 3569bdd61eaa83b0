"""Pytest on test files of a test's own, with the plug-ins that are asked for and no others: how ours behave, seen from outside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_pytest(
    directory: Path, *options: str, plugins: tuple[str, ...], environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    chosen = chain.from_iterable(("-p", plugin) for plugin in (*plugins, "no:cacheprovider"))
    alone = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **(environment or {})}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *chosen, *options],
        cwd=directory, env={**os.environ, **alone}, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
