"""The worked examples of the pages: what a page shows under a command is what the command prints, to the letter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import environment
from tests.docs.written import FENCE, ROOT

pytestmark = pytest.mark.process

CAPABILITIES = ("placement", "deletion-cost", "node-groups")


def shown(page: str) -> Iterator[tuple[str, str]]:
    """Each command of a `console` block, with what stands below it."""
    for block in FENCE.finditer((ROOT / "docs" / f"{page}.md").read_text("utf-8")):
        if block["language"] == "console":
            for part in ("\n" + block["body"]).split("\n$ ")[1:]:
                command, _, output = part.replace("\\\n", "").partition("\n")
                yield command, output.rstrip("\n")


EXAMPLES = [(page, *example) for page in CAPABILITIES for example in shown(page)]


def test_every_capability_that_files_alone_can_show_has_one():
    assert {page for page, _, _ in EXAMPLES} == set(CAPABILITIES)


@pytest.mark.parametrize(("page", "command", "output"), EXAMPLES, ids=[f"{one[0]}: {one[1][:50]}" for one in EXAMPLES])
def test_it_prints_what_the_page_shows(page: str, command: str, output: str):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=ROOT, env=environment(PATH=path, COLUMNS="200"),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "\n".join(line.rstrip() for line in done.stdout.rstrip("\n").split("\n")) == output, f"docs/{page}.md"
