"""The `plimsoll` command in a separate process, and the metrics it reports."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.report import progress

_TICKS = os.sysconf("SC_CLK_TCK")


class Operator:
    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process = process
        self._port = port

    def wait_until_ready(self, *, elected: bool) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"the operator ended with {self._process.returncode}")
            leads = not elected or b"plimsoll_leading 1" in self._ask("/metrics")
            if leads and self._ask("/readyz"):
                return
            time.sleep(0.2)
        raise TimeoutError("the operator is not ready after two minutes")

    def _ask(self, path: str) -> bytes:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=5) as answer:
                return bytes(answer.read())
        except (urllib.error.URLError, OSError):
            return b""

    def counter(self, name: str, **labels: str) -> int:
        """The value of a counter, summed over the labels that are not given."""
        families = text_string_to_metric_families(self._ask("/metrics").decode())
        samples = [sample for family in families for sample in family.samples if sample.name == name]
        return int(sum(sample.value for sample in samples if labels.items() <= sample.labels.items()))

    @property
    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def resident_megabytes(self) -> float:
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1000


@contextmanager
def operator(kubeconfig: Path, log: Path, controller: str, *settings: str, elected: bool = True) -> Iterator[Operator]:
    """`plimsoll run` with one controller, ready to work."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    changed = [
        f"web.port={port}", "dashboard.port=0", "operator.auditLog=", "operator.namespace=default",
        f"operator.leaderElection.enabled={str(elected).lower()}", *settings,
    ]  # fmt: skip
    command = [
        str(Path(sys.executable).with_name("plimsoll")), "run", f"--kubeconfig={kubeconfig}",
        f"--controllers={controller}", "--log-level=warning", *(f"--set={one}" for one in changed),
    ]  # fmt: skip
    with log.open("wb") as output, subprocess.Popen(command, stderr=output, stdout=output) as process:
        try:
            found = Operator(process, port)
            found.wait_until_ready(elected=elected)
            yield found
        except BaseException:
            progress(f"the operator said at last:\n{log.read_text()[-4000:]}")
            raise
        finally:
            process.terminate()
