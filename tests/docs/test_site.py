"""The site builds, and every link in it, to a page, a heading or a file of the repository, leads somewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]


def build(configuration: Path, directory: Path) -> subprocess.CompletedProcess[str]:
    mkdocs = [sys.executable, "-m", "mkdocs", "build", "--strict"]  # quiet, it would not count warnings
    return subprocess.run(
        [*mkdocs, "--config-file", str(configuration), "--site-dir", str(directory)],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


def test_every_link_leads_somewhere(tmp_path: Path) -> None:
    done = build(ROOT / "mkdocs.yml", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "configuration.html").is_file()


@pytest.mark.parametrize("link", ["gone.md", "metrics.md#nothing-here", "../src/plimsoll/gone.py"])
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path, link: str) -> None:
    (tmp_path / "tools/docs").mkdir(parents=True)
    shutil.copy(ROOT / "tools/docs/site_hooks.py", tmp_path / "tools/docs")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text(f"# Here\n\n[there]({link})\n")
    (tmp_path / "docs/metrics.md").write_text("# Metrics\n")
    configuration = (
        (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[0].replace("not_in_nav: decisions/[0-9]*.md", "")
    )
    (tmp_path / "mkdocs.yml").write_text(configuration)
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0
    assert link.partition("#")[0] in done.stderr
