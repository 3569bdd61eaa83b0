"""The quick start, followed to the letter by someone who has nothing yet: each command in its turn, and what it promises."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import environment
from tests.docs.written import FENCE, ROOT, commands
from tests.eventually import eventually
from tools.controlplane.binaries import ControlPlaneUnavailableError, find_binaries

pytestmark = pytest.mark.process

PAGE = "docs/quick-start.md"
STAYS = {"plimsoll cluster": "The cluster is at ", "plimsoll run": "webhook registered"}  # and says this when it is up


class Newcomer:
    def __init__(self, directory: Path, kubectl: Path) -> None:
        self.directory = directory
        (directory / ".venv").mkdir()
        (directory / ".venv/bin").symlink_to(Path(sys.executable).parent)
        (directory / "bin").mkdir()
        (directory / "bin/kubectl").symlink_to(kubectl)
        self._environment = environment(
            PATH=f"{directory}/bin:{os.environ['PATH']}", KUBECONFIG=f"{directory}/kubeconfig", HOME=str(directory),
            PLIMSOLL_WEB_PORT="0", PLIMSOLL_DASHBOARD_PORT="0",
        )  # fmt: skip
        self.running: list[subprocess.Popen[bytes]] = []

    async def types(self, text: str) -> None:
        up = next((said for program, said in STAYS.items() if program in text), "")
        if not up:
            done = subprocess.run(  # noqa: ASYNC221 - nothing else is to happen meanwhile
                ["bash", "-c", text], cwd=self.directory, env=self._environment, capture_output=True, text=True,
                timeout=120, check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"{text}: {done.stdout}{done.stderr}"
            return
        output = self.directory / f"output-{len(self.running)}"
        with output.open("wb") as sink:
            process = subprocess.Popen(  # noqa: ASYNC220
                ["bash", "-c", f"exec {text}"], cwd=self.directory, env=self._environment,
                stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
            )  # fmt: skip
        self.running.append(process)
        await eventually(lambda: up in output.read_text() or process.poll() is not None, f"{text} is up")
        assert process.poll() is None, output.read_text()

    def _told(self, *words: str) -> str:
        return subprocess.run(
            [str(self.directory / "bin/kubectl"), *words],
            cwd=self.directory,
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def in_order(self) -> bool:
        """A person takes longer to the next command than the operator to the order of deletion."""
        return self._told("get", "pods", "-o", "yaml").count("controller.kubernetes.io/pod-deletion-cost:") == 5

    def pods(self) -> Counter[str]:
        """Ready ones, by the class that the name of their node begins with."""
        lines = [line.split() for line in self._told("get", "pods", "-o", "wide", "--no-headers").splitlines()]
        return Counter(re.sub(r"-[a-z]-\d+$", "", words[6]) for words in lines if words[1:3] == ["1/1", "Running"])


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    try:
        kubectl = find_binaries(may_build=False).path("kubectl")
    except ControlPlaneUnavailableError as error:
        pytest.skip(str(error))
    one = Newcomer(tmp_path, kubectl)
    yield one
    for process in reversed(one.running):
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def test_by_hand_on_the_embedded_cluster(newcomer: Newcomer):
    page = (ROOT / PAGE).read_text("utf-8")
    begin, end = (page.count("\n", 0, page.index(title)) + 1 for title in ("## By hand", "## On your own cluster"))
    (manifest,) = (block["body"] for block in FENCE.finditer(page) if block["language"] == "yaml")
    (newcomer.directory / "web.yaml").write_text(manifest)
    typed = [one.text for one in commands() if one.page == PAGE and begin < one.line < end]
    assert len(typed) == 11
    for text in typed:
        if text.startswith(("make ", "export ")):
            continue  # this test's own environment has both
        await newcomer.types(text)
        if "apply" in text:
            await eventually(lambda: newcomer.pods() == {"spot": 3, "on-demand": 2}, "three on spot, two on-demand")
            await eventually(newcomer.in_order, "an order of deletion")
    await eventually(lambda: newcomer.pods() == {"spot": 1, "on-demand": 1}, "one of each stays")
