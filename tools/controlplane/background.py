"""Named clusters that outlive the command that started them.

Each is kept by one background process, the keeper, which runs the cluster as a test would: stop the keeper and all is
gone, kill the keeper and the kernel ends its components. A state file tells other commands where it is.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.controlplane.cluster import ControlPlane
from tools.controlplane.process import started_at, wait_until_gone

_SECONDS_TO_STOP = 20.0


class NamedClusterError(RuntimeError):
    """What was asked of a named cluster cannot be done."""


@dataclass(frozen=True)
class State:
    """What the state file holds."""

    name: str
    keeper: int
    # With the id it names the keeper for good; see `process.started_at`.
    keeper_started: str
    server: str
    kubeconfig: str
    logs: str
    versions: str

    @property
    def running(self) -> bool:
        """Whether the keeper lives."""
        return started_at(self.keeper) == self.keeper_started


def state_directory() -> Path:
    """`plimsoll/clusters` in the user's directory for state."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "plimsoll" / "clusters"


def running_clusters() -> list[State]:
    """Every named cluster that runs."""
    found = [_read(path.parent.name) for path in sorted(state_directory().glob("*/state.json"))]
    return [state for state in found if state is not None and state.running]


def find(name: str) -> State:
    """The running cluster of this name, or NamedClusterError."""
    state = _read(name)
    if state is None or not state.running:
        others = ", ".join(other.name for other in running_clusters()) or "none"
        raise NamedClusterError(f"no cluster {name!r} is running (running: {others}); start it with `up --name {name}`")
    return state


def up(name: str, arguments: Sequence[str]) -> State:
    """Start a keeper with the arguments of `serve`, and return when its cluster is ready."""
    if re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) is None:
        raise NamedClusterError(f"{name!r} is no name for a cluster: expected lower-case letters, digits and dashes")
    existing = _read(name)
    if existing is not None and existing.running:
        raise NamedClusterError(f"cluster {name!r} is already running: {existing.kubeconfig}")
    directory = state_directory() / name
    directory.mkdir(parents=True, exist_ok=True)
    _state_file(name).unlink(missing_ok=True)
    log = directory / "keeper.log"
    with log.open("w") as output:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tools.controlplane", "serve", "--name", name, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # The package is found from the repository's root, wherever this command was called.
            cwd=Path(__file__).parents[2],
        )
    try:
        state = _wait_for_state(name, keeper)
    except BaseException:
        keeper.send_signal(signal.SIGTERM)
        keeper.wait()
        raise
    if state is None:
        raise NamedClusterError(f"cluster {name!r} did not start:\n{log.read_text().strip()}")
    # It is no longer ours to wait for.
    keeper.returncode = 0
    return state


def _wait_for_state(name: str, keeper: subprocess.Popen[bytes]) -> State | None:
    """What the keeper writes when its cluster is ready; None if it ends before that."""
    while keeper.poll() is None:
        state = _read(name)
        if state is not None and state.keeper == keeper.pid:
            return state
        time.sleep(0.02)
    return None


def serve(name: str, *, kubernetes: str | None, nodes: Sequence[str]) -> None:
    """Be the keeper: run the cluster until SIGTERM or SIGINT."""
    ends = {signal.SIGTERM, signal.SIGINT}

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        with ControlPlane.start(kubernetes=kubernetes, nodes=nodes) as cluster:
            # From here on signals are fetched one by one, so that none can interrupt the stopping.
            signal.pthread_sigmask(signal.SIG_BLOCK, ends)
            _write(
                State(
                    name=name,
                    keeper=os.getpid(),
                    keeper_started=started_at(os.getpid()) or "",
                    server=cluster.server,
                    kubeconfig=str(cluster.kubeconfig),
                    logs=str(cluster.logs),
                    versions=str(cluster.binaries.versions),
                ),
            )
            print(cluster.kubeconfig, flush=True)
            try:
                signal.sigwait(ends)
            finally:
                _state_file(name).unlink(missing_ok=True)
    except KeyboardInterrupt:
        print("interrupted while starting", file=sys.stderr)


def down(name: str) -> None:
    """Stop a named cluster and wait until it is gone."""
    state = find(name)
    os.kill(state.keeper, signal.SIGTERM)
    if not wait_until_gone(state.keeper, state.keeper_started, _SECONDS_TO_STOP):
        raise NamedClusterError(f"the keeper of cluster {name!r} (process {state.keeper}) does not end")


def _state_file(name: str) -> Path:
    return state_directory() / name / "state.json"


def _read(name: str) -> State | None:
    try:
        return State(**json.loads(_state_file(name).read_text()))
    except (OSError, ValueError, TypeError):
        # Not there, or of another version of this tool: then nothing that we could stop.
        return None


def _write(state: State) -> None:
    new = _state_file(state.name).with_suffix(".new")
    new.write_text(json.dumps(asdict(state), indent=2))
    new.replace(_state_file(state.name))
