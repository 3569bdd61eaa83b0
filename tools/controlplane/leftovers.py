"""Temporary directories that know their owner, so that those of a killed process are found and removed later."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from tools.controlplane.process import started_at

_IN_MEMORY = Path("/dev/shm")
_OWNER = "owner"


def new_directory(purpose: str, *, in_memory: bool = False) -> Path:
    """A new directory of this process, in memory where the machine offers that: etcd writes a lot."""
    parent = _IN_MEMORY if in_memory and os.access(_IN_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
    directory = Path(tempfile.mkdtemp(prefix=f"plimsoll-{purpose}-", dir=parent))
    (directory / _OWNER).write_text(f"{_process_namespace()} {os.getpid()} {started_at(os.getpid())}")
    return directory


def keep(directory: Path) -> None:
    """Let a directory outlive its owner, because somebody wants to read what is in it."""
    (directory / _OWNER).unlink(missing_ok=True)


def remove_leftovers() -> None:
    """Remove the directories of owners that were killed before they could do so."""
    for parent in {_IN_MEMORY, Path(tempfile.gettempdir())}:
        for owner in parent.glob(f"plimsoll-*/{_OWNER}"):
            try:
                namespace, pid, started = owner.read_text().split(maxsplit=2)
            except (OSError, ValueError):
                continue
            # A container that shares the directory counts its processes by itself: we cannot see whether they live.
            if namespace == _process_namespace() and started_at(int(pid)) != started:
                shutil.rmtree(owner.parent, ignore_errors=True)


def _process_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return "none"
