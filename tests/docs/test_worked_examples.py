"""The worked examples of the pages: what a page shows under a command is what the command prints, to the letter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll.config import Config, Controllers
from plimsoll.embedded_cluster.api import kinds
from plimsoll.simulate.custom_kinds import CONTAINERS
from plimsoll.simulate.run import Scenario, run_simulation
from plimsoll.simulate.world import World
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


def test_the_containers_of_the_example_get_what_the_page_says():
    page = (ROOT / "docs" / "allocation.md").read_text("utf-8")
    blocks = [(block["language"], block["body"]) for block in FENCE.finditer(page)]
    status = next(yaml.safe_load(body)["status"] for language, body in blocks if body.startswith("status:"))
    shortage = next(body.strip() for language, body in blocks if language == "text")
    objects = list(yaml.safe_load_all((ROOT / "examples" / "worked" / "allocation.yaml").read_text()))
    found: dict[str, Any] = {}

    def look(world: World, _: float) -> None:
        storage = world.cluster.api.storage
        found["status"] = (storage.get(CONTAINERS, "default", "backend-0") or {}).get("status", {})
        found["told"] = {
            event["message"]
            for event in storage.collection(kinds.EVENTS).all("default")
            if (event["involvedObject"]["name"], event["reason"]) == ("backend-1", "InsufficientDrives")
        }

    config = Config(controllers=Controllers(enabled=("allocation",)))
    run_simulation(config, Scenario(seconds=60, node_lines=("1 zone=a",), documents=objects), seen=look)
    assert found["status"]["allocations"] == status["allocations"]
    (shown_condition,), (condition,) = status["conditions"], found["status"]["conditions"]
    for one in (shown_condition, condition):  # an epoch is whatever the store counts
        one["message"] = re.sub(r"epoch \d+", "epoch N", one["message"])
    assert condition.items() >= shown_condition.items()
    assert found["told"] == {shortage}
