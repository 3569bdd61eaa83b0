"""The commit-msg hook accepts `area: change` of at most 72 characters, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tools.commit_subject import problem_in

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "message",
    [
        "scheduling: respect CSI attach limits",
        "runtime, kube: rename terms\n\nA body may be as long as it likes." + " word" * 100,
        "kube/cache: quarantine objects",
        "x: " + "a" * 69,
        "Merge branch 'main' into topic",
        'Revert "kube: something"',
        "fixup! whatever was there",
    ],
)
def test_good_subjects(message: str):
    assert problem_in(message) is None


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("", "empty"),
        ("\n\nonly a body", "empty"),
        ("Let pods go where a spread does not look", "no area"),
        ("Scheduling: capital letter", "no area"),
        ("scheduling:no space", "no area"),
        ("scheduling:", "no area"),
        ("x: " + "a" * 70, "73 characters"),
        ("kube: ends with a stop.", "full stop"),
    ],
)
def test_bad_subjects(message: str, says: str):
    assert says in (problem_in(message) or "")


def test_the_hook_runs_the_check_on_the_message(tmp_path: Path):
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert "commit-msg" in config["default_install_hook_types"]
    (hook,) = (one for repo in config["repos"] for one in repo["hooks"] if one.get("stages") == ["commit-msg"])
    _, *arguments = hook["entry"].split()
    for text, code in (("kube: fine\n", 0), ("Not fine\n", 1)):
        message = tmp_path / "message"
        message.write_text(text)
        ran = subprocess.run(
            [sys.executable, *arguments, message], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert ran.returncode == code, ran.stderr
        assert ("Not fine" in ran.stderr) is bool(code)
