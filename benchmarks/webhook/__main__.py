"""W1 and W2: `python -m benchmarks.webhook [--json] [--seconds N] [--rate N] [--without-cluster]`."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import Figure, Report, progress
from benchmarks.webhook.load import Measured, measure, percentile
from benchmarks.webhook.objects import RUNNING, WORKLOADS


def admissions(rate: int, seconds: float, server_module: str = "benchmarks.webhook.server") -> tuple[Measured, float]:
    """What was measured, and the CPU milliseconds of the server a request."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-bench-") as name:
        directory = Path(name)
        server = subprocess.Popen([sys.executable, "-m", server_module, name], stdin=subprocess.PIPE, stdout=sys.stderr)
        try:
            port = directory / "port"
            while not (port.exists() and port.read_text()):
                if server.poll() is not None:
                    raise RuntimeError(f"the server ended with {server.returncode}")
                time.sleep(0.05)
            before = _cpu_seconds(server.pid)
            measured = asyncio.run(
                measure(int(port.read_text()), (directory / "ca.pem").read_text(), rate=rate, seconds=seconds)
            )
            spent = _cpu_seconds(server.pid) - before
        finally:
            assert server.stdin is not None
            server.stdin.close()
            server.wait(30)
    return measured, 1000 * spent / (rate * (seconds + 3.0))


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.webhook", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--rate", type=int, default=500, help="questions a second (default 500)")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long they are asked (default 20)")
    parser.add_argument("--without-cluster", action="store_true", help="leave out the bursts on a real control plane")
    options = parser.parse_args()
    progress(f"asking {options.rate} times a second somebody who answers without a thought")
    floor, _ = admissions(options.rate, options.seconds / 2, "benchmarks.webhook.thoughtless")
    progress(f"asking {options.rate} times a second, {WORKLOADS * RUNNING:,} pods in the cache")
    measured, cpu_ms = admissions(options.rate, options.seconds)
    promised = options.rate == 500
    figures = [
        Figure("p50", "ms", 1000 * percentile(measured.seconds, 0.50)),
        Figure("p99", "ms", 1000 * percentile(measured.seconds, 0.99), at_most=10 if promised else None),
        Figure("p99.9", "ms", 1000 * percentile(measured.seconds, 0.999)),
        Figure("longest", "ms", 1000 * max(measured.seconds)),
        Figure(
            "p99 where nothing is decided: the machine's and the asker's part",
            "ms",
            1000 * percentile(floor.seconds, 0.99),
        ),
        Figure("p99 of the asker's own lateness, contained in the above", "ms", 1000 * percentile(measured.late, 0.99)),
        Figure("CPU a question, with the watch's work", "ms", cpu_ms),
        Figure("wrong or no answer", "of all", measured.wrong, at_most=0),
    ]
    if not options.without_cluster:
        from benchmarks.webhook.bursts import bursts  # noqa: PLC0415 - needs the control plane's tools

        figures += bursts()
    report = Report(
        name="webhook",
        work=f"admit {options.rate} pods a second over TLS on loopback, open loop, timed from when each was due; then bursts",
        figures=figures,
        facts={"pods in the cache": WORKLOADS * RUNNING, "requests": len(measured.seconds)},
    )
    report.print(as_json=options.json)
    return 0 if report.kept else 1


if __name__ == "__main__":
    sys.exit(main())
