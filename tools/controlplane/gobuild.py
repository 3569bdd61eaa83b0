"""Builds Go programs into the user's cache: once, atomically, one builder at a time, and with visible progress."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from tools.controlplane.versions import machine

# Where no terminal is attached, one line in this many seconds is enough to show that the build is alive.
SECONDS_BETWEEN_LINES = 20.0


class GoBuildError(RuntimeError):
    """`go` is missing or refused; the message contains the end of its output."""


def cache_directory() -> Path:
    """`plimsoll/controlplane` in the user's cache directory."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "plimsoll" / "controlplane"


def go_command() -> str | None:
    """The path of the Go toolchain, or None where there is none."""
    return shutil.which("go")


def build_go_module(source: Path, name: str, *, package: str = ".", ldflags: str = "-s -w", tags: str = "") -> Path:
    """Build a committed Go module once and return the program, `<cache>/gomodules/<name>-<hash>/<name>`.

    The hash covers every file of the module, so an edited source is a new program and an old one stays valid.
    `package` may name a package of another module that go.mod requires, such as `helm.sh/helm/v4/cmd/helm`.
    """
    key = f"{name}-{_hash_of_sources(source, package, ldflags, tags)}"
    directory = cache_directory() / "gomodules" / key

    def fill(temporary: Path) -> None:
        go_build(source, package, temporary / name, ldflags=ldflags, label=name, tags=tags)

    return build_once(directory, fill) / name


def build_once(directory: Path, fill: Callable[[Path], None]) -> Path:
    """Return `directory`, filled by `fill` unless it is already there.

    `fill` works in a temporary directory that is renamed at the end, so a directory that exists is complete, also
    after a build that was killed. A second builder waits for the first and then finds its work done.
    """
    if directory.exists():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with _exclusively(directory.with_name(directory.name + ".lock")):
        if directory.exists():
            return directory
        # We hold the lock, so an unfinished directory is left over from an earlier builder.
        temporary = directory.with_name(f".building-{directory.name}")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        try:
            fill(temporary)
            temporary.rename(directory)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return directory


def go_build(
    module: Path, package: str, output: Path, *, ldflags: str, label: str, mod: str = "readonly", tags: str = ""
) -> None:
    """Run `go build` in `module`; `mod="mod"` lets it complete go.mod and go.sum, for a module that was generated."""
    chosen = [f"-tags={tags}"] if tags else []
    command = ["build", f"-mod={mod}", "-trimpath", f"-ldflags={ldflags}", *chosen, "-v", "-o", str(output), package]
    run_go(command, module, label)


def run_go(arguments: Sequence[str], directory: Path, label: str) -> None:
    """Run `go` with progress on stderr; on failure raise GoBuildError with the end of its output."""
    go = go_command()
    if go is None:
        raise GoBuildError(f"cannot build {label}: there is no `go` on the PATH")
    # A workspace file of a directory above would change what the committed go.mod says.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    with subprocess.Popen(
        [go, *arguments],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        assert process.stderr is not None
        last_words: deque[str] = deque(maxlen=40)
        try:
            with _Progress(label) as progress:
                for line in process.stderr:
                    last_words.append(line.rstrip())
                    progress.step()
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise GoBuildError(f"`go {' '.join(arguments)}` failed for {label}:\n  " + "\n  ".join(last_words))


class _Progress:
    """One line with the program, the number of finished packages and the elapsed time.

    A thread of its own draws it, because the compiler may be silent for a minute while it links.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._steps = 0
        self._started = time.monotonic()
        self._done = threading.Event()
        self._terminal = sys.stderr.isatty()
        self._thread = threading.Thread(target=self._draw, daemon=True)

    def step(self) -> None:
        self._steps += 1

    def __enter__(self) -> Self:
        print(f"building {self._label} …", file=sys.stderr, flush=True)
        self._thread.start()
        return self

    def __exit__(self, exc_type: object, *_: object) -> None:
        self._done.set()
        self._thread.join()
        outcome = "built" if exc_type is None else "stopped"
        self._print(f"{outcome} {self._label}{self._state()}", end="\n")

    def _draw(self) -> None:
        while not self._done.wait(1.0 if self._terminal else SECONDS_BETWEEN_LINES):
            self._print(f"  {self._label}{self._state()}", end="" if self._terminal else "\n")

    def _state(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        packages = f", {self._steps} packages" if self._steps else ""
        return f": {minutes}:{seconds:02d}{packages}"

    def _print(self, text: str, end: str) -> None:
        start = "\r\033[K" if self._terminal else ""
        print(f"{start}{text}", end=end, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _exclusively(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another process is building {lock.stem}; waiting for it …", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _hash_of_sources(source: Path, package: str, ldflags: str, tags: str) -> str:
    if not (source / "go.mod").is_file():
        raise GoBuildError(f"{source} is not a Go module: it has no go.mod")
    digest = hashlib.sha256(f"{machine()}\n{package}\n{ldflags}\n{tags}".encode())
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(source)}\n{len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]
