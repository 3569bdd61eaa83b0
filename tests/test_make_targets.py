"""What people type first: `make help` tells the targets, the README's two commands are among them, and CI runs the second."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[1]
TARGETS = {
    "setup", "demo", "test", "check", "unit", "test-e2e", "rights", "soak", "manifests", "controlplane", "bench",
    "bench-peers", "docs", "image", "sbom", "audit",
}  # fmt: skip


def _make(*arguments: str) -> str:
    return subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout


def test_help_lists_every_target_with_a_sentence_and_is_the_default() -> None:
    told = _make("help")
    listed = dict(re.match(r"  (\S+)\s+(\S.*)", line).groups() for line in told.splitlines())  # type: ignore[union-attr,misc]
    assert listed.keys() >= TARGETS
    assert _make() == told


def test_help_prints_escape_codes_only_to_a_terminal() -> None:
    assert "\033" not in _make("help")
    ours, theirs = pty.openpty()
    environ = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    subprocess.run(["make", "help"], cwd=ROOT, stdout=theirs, env=environ, check=True, timeout=60)
    os.close(theirs)
    with os.fdopen(ours, "rb") as terminal:
        assert b"\033[1m" in terminal.read1()


def test_what_the_readme_tells_one_to_type_is_there() -> None:
    typed = set(re.findall(r"^make ([\w-]+)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE))
    assert typed >= {"demo", "test"}
    assert typed <= set(re.findall(r"^  (\S+)", _make("help"), re.MULTILINE))


def test_make_test_checks_and_runs_everything_but_the_soak() -> None:
    recipe = _make("--dry-run", "test")
    for part in ("tools.programs", "ruff check", "mypy", "lint-imports", '-m "not soak"'):
        assert part in recipe


def test_ci_runs_make_test_with_nothing_skipped(tmp_path: Path) -> None:
    """From anywhere, with a make that tells how it was called."""
    made = tmp_path / "make"
    made.write_text('#!/bin/sh\necho "$PWD: make $* with CI=$CI"\nexit 3\n')
    made.chmod(0o755)
    ran = subprocess.run(
        [ROOT / ".ci/run"], cwd=tmp_path, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "CI": ""},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ran.stdout == f"{ROOT}: make test with CI=true\n"
    assert ran.returncode == 3
