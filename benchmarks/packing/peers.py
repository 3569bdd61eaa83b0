"""Runs Karpenter on the same machine: its scheduler, its instance types and its own benchmark, built from its Go
module.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.controlplane.gobuild import GoBuildError, build_once, cache_directory, go_command, run_go

KARPENTER = "Karpenter 1.14.1"
# The sizes for which Karpenter has a benchmark of its own.
SIZES = (500, 1_000, 2_000, 5_000, 10_000, 20_000)

_PINNED = Path(__file__).with_name("peer")  # a module that requires Karpenter, so that go.sum verifies the download
_OUR_TEST = _PINNED / "plan_test.go.txt"
_MODULE = "sigs.k8s.io/karpenter"
_PACKAGE = Path("pkg/controllers/provisioning/scheduling")
_RATE = re.compile(r"^BenchmarkScheduling(\d+)(?:-\d+)?\s.*?([\d.]+) pods/sec", re.MULTILINE)


class KarpenterPlan(NamedTuple):
    """Karpenter's result for pods that we packed, too."""

    pods: int
    unplaced: int
    nodes: int
    price: float
    seconds: float
    cpu_seconds: float
    own_pods_per_second: float | None  # in its own benchmark, with the pods that it generates

    @property
    def pods_per_second(self) -> float:
        """Return the faster of its two runs: other work on the machine only ever adds time."""
        return max(self.pods / self.seconds, self.own_pods_per_second or 0.0)


def build() -> Path:
    """Build the test program of Karpenter's scheduling package with our test in it, once, in the user's cache."""
    digest = hashlib.sha256()
    for file in sorted(_PINNED.iterdir()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    directory = cache_directory() / "gomodules" / f"karpenter-benchmark-{digest.hexdigest()[:16]}"
    return build_once(directory, _fill) / "karpenter.test"


def _fill(directory: Path) -> None:
    source = directory / "source"
    shutil.copytree(_module_directory(), source)
    for path in (source, *source.rglob("*")):  # Go's module cache is read-only
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    shutil.copy(_OUR_TEST, source / _PACKAGE / "plimsoll_plan_test.go")
    program = str(directory / "karpenter.test")
    command = ["test", "-tags=test_performance", "-mod=readonly", "-trimpath", "-v", "-c", "-o", program]
    run_go([*command, f"./{_PACKAGE}"], source, KARPENTER)
    shutil.rmtree(source)


def _module_directory() -> Path:
    go = go_command()
    if go is None:
        raise GoBuildError(f"cannot build {KARPENTER}: there is no `go` on the PATH")
    environment = {**os.environ, "GOWORK": "off"}
    command = [go, "mod", "download", "-json", _MODULE]
    done = subprocess.run(command, cwd=_PINNED, env=environment, text=True, capture_output=True, check=False)
    if done.returncode:
        raise GoBuildError(f"`{' '.join(command[1:])}` failed:\n{done.stdout}{done.stderr}")
    return Path(json.loads(done.stdout)["Dir"])


def karpenter(program: Path, bodies: Sequence[bytes]) -> KarpenterPlan:
    """Pack these pods (JSON), and run the benchmark of the same size where Karpenter has one."""
    pods = len(bodies)
    own = None
    if pods in SIZES:
        bench = ["-test.run", "^$", "-test.bench", f"^BenchmarkScheduling{pods}$", "-test.benchtime", "1x"]
        own = rates(_run(program, bench))[pods]
    with tempfile.TemporaryDirectory(prefix="plimsoll-karpenter-") as directory:
        (Path(directory) / "pods.json").write_bytes(b"[" + b",".join(bodies) + b"]")
        output = _run(program, ["-test.run", "^TestPlimsollPlan$"], {"PLIMSOLL_PODS": directory})
    return plan(output, own)


def _run(program: Path, arguments: Sequence[str], environment: Mapping[str, str] = {}) -> str:
    with tempfile.TemporaryDirectory(prefix="plimsoll-karpenter-") as directory:
        done = subprocess.run(
            [program, *arguments],
            cwd=directory,
            env={**os.environ, **environment},
            text=True,
            capture_output=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{program.name} {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def rates(output: str) -> dict[int, float]:
    """Parse pods per second by number of pods from the output of Karpenter's benchmark."""
    return {int(pods): float(rate) for pods, rate in _RATE.findall(output)}


def plan(output: str, own_pods_per_second: float | None) -> KarpenterPlan:
    """Parse the output of our test."""
    line = next((line for line in output.splitlines() if line.startswith("PLAN ")), None)
    if line is None:
        raise RuntimeError(f"{KARPENTER} printed no plan:\n{output}")
    found = json.loads(line.removeprefix("PLAN "))
    return KarpenterPlan(
        found["pods"],
        found["unplaced"],
        found["nodes"],
        found["price"],
        found["seconds"],
        found["cpuSeconds"],
        own_pods_per_second,
    )
