"""A child process that never outlives its parent, and is stopped, paused and started again by name.

Each child leads a process group of its own, so Ctrl-C in the terminal reaches the parent alone, which then stops its
children in order. If the parent is killed without a chance to do so, the kernel kills them (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LINES_OF_LOG_SHOWN = 25
_STOPPED_WITHIN_SECONDS = 10.0
_NOT_RUNNING = "TtZX"  # stopped, traced, dead: the states of a thread that runs no more, in /proc


class ComponentFailedError(RuntimeError):
    """A component of the control plane ended or did not become ready; the message ends with its last log lines."""


class Process:
    """One component: its command line, its log file, and the process while it runs."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self._environment = dict(environment) if environment is not None else None
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._popen.pid if self._popen is not None and self._popen.poll() is None else None

    @property
    def running(self) -> bool:
        """Whether it runs (a paused process runs, too)."""
        return self.pid is not None

    def start(self) -> None:
        """Start it; its output is appended to the log, so that a restart does not hide why it ended."""
        if self.running:
            raise RuntimeError(f"{self.name} is already running")
        self._popen = _in_launcher_thread(self._launch)

    def _launch(self) -> subprocess.Popen[bytes]:
        parent = os.getpid()
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self._environment,
                preexec_fn=lambda: _die_with(parent),  # noqa: PLW1509 (takes no lock and imports nothing)
            )

    def stop(self, *, grace_seconds: float = 0.0) -> None:
        """Stop it and wait; without a grace period it is killed, which is safe because no data must survive."""
        if self._popen is None:
            return
        if self._popen.poll() is None and grace_seconds > 0:
            self._signal(signal.SIGCONT)
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(grace_seconds)
        if self._popen.poll() is None:
            self._signal(signal.SIGKILL)
        self._popen.wait()
        self._popen = None

    def pause(self) -> None:
        """Freeze it: its connections stay open and nothing answers, as in a machine that hangs."""
        self._require_running("pause")
        self._signal(signal.SIGSTOP)
        # The kernel stops one thread after another, each when it is next scheduled: on a busy machine one may still answer.
        deadline = time.monotonic() + _STOPPED_WITHIN_SECONDS
        while not self._stopped():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} still runs {_STOPPED_WITHIN_SECONDS:.0f} s after SIGSTOP")
            time.sleep(0.001)

    def _stopped(self) -> bool:
        assert self._popen is not None
        tasks = Path(f"/proc/{self._popen.pid}/task")
        if not tasks.is_dir():
            return True  # no /proc here: trust the signal
        return all(_state(task / "stat") in _NOT_RUNNING for task in tasks.iterdir())

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._require_running("resume")
        self._signal(signal.SIGCONT)

    def check(self) -> None:
        """Raise ComponentFailedError if it has ended by itself."""
        if self._popen is not None and self._popen.poll() is not None:
            raise ComponentFailedError(f"{self.name} ended with code {self._popen.returncode}\n{self.last_words()}")

    def last_words(self) -> str:
        """The end of the log, for an error message."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        shown = [line[:500] for line in lines[-_LINES_OF_LOG_SHOWN:]]
        return f"the end of {self.log}:\n  " + "\n  ".join(shown or ["(empty)"])

    def _signal(self, number: signal.Signals) -> None:
        if self._popen is not None and self._popen.poll() is None:
            # The child has not been waited for, so its id (and its group's) cannot be another's by now.
            os.killpg(self._popen.pid, number)

    def _require_running(self, verb: str) -> None:
        if not self.running:
            raise RuntimeError(f"cannot {verb} {self.name}: it is not running")


def wait_until_gone(pid: int, started: str, timeout: float) -> bool:
    """Wait for a process that is not our child; True when it is gone."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if started_at(pid) != started:
            return True
        time.sleep(0.02)
    return False


def started_at(pid: int) -> str | None:
    """When a process started, as an opaque word: with the id it names the process for good. None: no such process."""
    try:
        fields = _fields(Path(f"/proc/{pid}/stat"))
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
        done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], check=False, capture_output=True, text=True)
        return done.stdout.strip() or None
    return None if fields[0] == "Z" else fields[19]


def _state(stat: Path) -> str:
    """The state of a thread by its file in /proc; one that has ended since counts as dead."""
    try:
        return _fields(stat)[0]
    except OSError:
        return "X"


def _fields(stat: Path) -> list[str]:
    # The command's name, in parentheses, may hold spaces; the fields behind it are counted from its end.
    return stat.read_text().rpartition(")")[2].split()


# --- starting a child that dies with us ------------------------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_launchers: dict[int, concurrent.futures.ThreadPoolExecutor] = {}


def _die_with(parent: int) -> None:
    """Runs in the child between fork and exec: it must not import or lock."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have died before the kernel was told.
    if os.getppid() != parent:
        os._exit(1)


def _in_launcher_thread(launch: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    # The kernel takes "parent" to be the thread that forked. Were that a test's worker thread, its end would kill the
    # cluster; so one thread that lives as long as this process starts every child.
    launcher = _launchers.get(os.getpid())
    if launcher is None:
        launcher = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="controlplane-launcher")
        _launchers[os.getpid()] = launcher
    return launcher.submit(launch).result()
