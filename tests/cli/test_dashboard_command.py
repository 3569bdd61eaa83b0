"""`plimsoll dashboard` over files: it serves on loopback until it is stopped, as of the time of the snapshot."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import urllib.request
from pathlib import Path

import aiohttp
import msgspec

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from plimsoll.embedded_cluster.http import HttpServer
from plimsoll.runtime.clock import RealClock
from tests.cli.command import PLIMSOLL, environment, plimsoll
from tests.eventually import eventually

SNAPSHOT = """\
apiVersion: plimsoll.dev/v1
kind: Snapshot
takenAt: 2026-01-31T12:00:00Z
items:
- apiVersion: v1
  kind: Node
  metadata: {name: n1, labels: {topology.kubernetes.io/zone: a}}
  status: {allocatable: {cpu: "4", memory: 8Gi}, conditions: [{type: Ready, status: "True"}]}
"""


def test_a_snapshot_is_shown_as_of_its_moment(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.yaml"
    file.write_text(SNAPSHOT)
    command = [str(PLIMSOLL), "dashboard", "-f", str(file), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[4]
            with urllib.request.urlopen(f"{url}api/v1/picture", timeout=120) as response:
                found = msgspec.json.decode(response.read())
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(timeout=120)
    assert code == 0
    assert found["at"] == "2026-01-31T12:00:00Z"
    assert found["nodes"]["n1"]["zone"] == "a"
    assert found["operator"]["readOnly"] is True


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    result = plimsoll("dashboard", "-f", str(tmp_path / "none.yaml"))
    assert result.exit_code == 1
    assert "none.yaml" in result.stderr


async def test_a_cluster_is_shown_and_nothing_is_written_there(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with EmbeddedCluster(RealClock()) as cluster, HttpServer(cluster.api) as server:
        await cluster.add_nodes("2 zone=a class=spot")
        server.write_kubeconfig(kubeconfig)
        process = await asyncio.create_subprocess_exec(
            str(PLIMSOLL), "dashboard", "--kubeconfig", str(kubeconfig), "--port", "0",
            stdout=asyncio.subprocess.PIPE, env=environment(),
        )  # fmt: skip
        try:
            assert process.stdout is not None
            url = (await process.stdout.readline()).decode().split()[4]
            async with aiohttp.ClientSession(url) as session:

                async def shown() -> bool:
                    async with session.get("/api/v1/snapshot") as response:
                        return len((await response.json())["nodes"]) == 2

                await eventually(shown, "both nodes are shown")
        finally:
            process.send_signal(signal.SIGTERM)
            code = await process.wait()
        assert code == 0
        assert not [one for one in cluster.all(kinds.LEASES) if one["metadata"]["name"] == "plimsoll-leader"]
        assert not list(cluster.all(kinds.CONFIGMAPS, "plimsoll-system"))
