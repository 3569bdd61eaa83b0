"""What the image holds, run as a pod runs it: as nobody, without a capability, with nothing to write to, until it is ready."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from plimsoll.manifests.pods import NOBODY
from tests.cli.command import PLIMSOLL, environment, plimsoll
from tests.cli.running import Running

pytestmark = pytest.mark.process

# /proc, /sys and /dev are the runtime's to give; everything else of the file system can only be read.
_READ_ONLY = """
mount --make-rprivate /
for place in $(findmnt -rno TARGET | grep -vE '^/(proc|sys|dev)(/|$)'); do mount -o remount,bind,ro "$place"; done
"""
_NOBODY = f"exec unshare --user --map-user={NOBODY} --map-group={NOBODY} setpriv --no-new-privs"


@pytest.fixture(scope="module")
def confined() -> Callable[[str], list[str]]:
    """A command, made one that runs in such a place."""
    enter = ["unshare", "--mount", *(["--user", "--map-root-user"] if os.geteuid() != 0 else [])]

    def confine(command: str) -> list[str]:
        return [*enter, "sh", "-euc", f"{_READ_ONLY}\n{_NOBODY} {command}"]

    tried = subprocess.run(confine("true"), capture_output=True, text=True, timeout=60, check=False)
    if tried.returncode != 0:
        pytest.skip(f"this machine gives out no mount namespaces: {tried.stderr.strip()}")
    return confine


def test_nothing_can_be_written_there_and_nobody_may_do_anything(confined: Callable[[str], list[str]], tmp_path: Path):
    asked = f"sh -c 'id -u; grep CapEff /proc/self/status; touch {tmp_path}/file || echo refused'"
    told = subprocess.run(confined(asked), capture_output=True, text=True, timeout=60, check=True).stdout.split()
    assert told == [str(NOBODY), "CapEff:", "0" * 16, "refused"]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """Of an embedded cluster."""
    file = tmp_path / "kubeconfig"
    cluster = subprocess.Popen(
        [str(PLIMSOLL), "cluster", "--kubeconfig", str(file), "--nodes", "1 zone=a"],
        stdout=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    assert cluster.stdout is not None and cluster.stdout.readline().startswith("The cluster is at ")
    yield file
    cluster.kill()
    cluster.communicate()


async def test_the_operator_becomes_ready(
    installed: Path, kubeconfig: Path, confined: Callable[[str], list[str]], tmp_path: Path
):
    log = tmp_path / "log.jsonl"
    printed = yaml.safe_load_all(plimsoll("manifests", "--namespace", "default").stdout)
    (file,) = (one["data"]["plimsoll.yaml"] for one in printed if one["kind"] == "ConfigMap")
    (tmp_path / "plimsoll.yaml").write_text(file)
    words = [
        str(installed / "bin" / "plimsoll"), "run", "--config", str(tmp_path / "plimsoll.yaml"),
        "--kubeconfig", str(kubeconfig), "--log-format", "json", "--set", "web.host=127.0.0.1", "--set", "web.port=0",
        "--set", "webhook.host=127.0.0.1", "--set", "webhook.port=0", "--set", "dashboard.port=0",
    ]  # fmt: skip
    with log.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            *confined(shlex.join(words)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=sink,
            env={"PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]}, cwd=tmp_path,
        )  # fmt: skip
    try:
        operator = Running(process, log)
        await operator.ready()
        process.send_signal(signal.SIGTERM)
        assert await operator.exit_code() == 0
        assert not [one for one in operator.records() if one["level"] == "error"]
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
