"""The audit trail: one JSON line per action that was done, refused or, in read-only mode, would have been done.

The actuator writes records; a thread brings them to their destination, so that an unread pipe or a full disk never blocks the event
loop. What waits is bounded. `audit.onFailure` decides what happens if records cannot be written: they are dropped and counted, or
the actuator stops acting until they can be. The dashboard listens to the records.
"""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
import structlog

from plimsoll.kube.codec import encode

log = structlog.get_logger()

MOST_RECORDS = 10_000  # that wait to be written
MOST_BYTES = 64 * 2**20
RETRY_SECONDS = 1.0
CLOSE_SECONDS = 1.0  # of the ten seconds that a shutdown may take

OnFailure = Literal["drop", "stop"]
AuditResult = Literal["written", "dropped"]


class AuditRecord(msgspec.Struct, frozen=True, rename="camel"):
    """Who did what to which object, why, in which leadership term, and with which result."""

    time: datetime
    operator: str
    term: str = msgspec.field(name="epoch")
    controller: str
    key: str
    action: str
    target: str
    uid: str
    reason: str
    why: str
    result: str  # done, would, refused, gone, conflict, failed, unknown
    detail: str = ""
    patch: Any = None


class AuditTrail:
    """Writes lines to a file, to standard output or nowhere, in the order of `write`."""

    def __init__(
        self,
        destination: str = "",
        on_record: Callable[[AuditRecord], None] = lambda _: None,
        *,
        on_failure: OnFailure = "drop",
        count: Callable[[AuditResult], None] = lambda _: None,
    ) -> None:
        """
        on_record: called with every record; it must be quick and must not raise.
        count: called for every line that was written or dropped.
        """
        self._on_record = on_record
        self._on_failure = on_failure
        self._count = count
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._failing = False  # the last attempt to write failed
        self._overflowing = False
        self._closing = False
        self._thread: threading.Thread | None = None
        self._descriptor, self._owned = _open(destination)
        if self._descriptor is not None:
            self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
            self._thread.start()

    @property
    def accepting(self) -> bool:
        """Whether an action may be taken: always, unless `audit.onFailure` is `stop` and records cannot be written."""
        return self._on_failure == "drop" or not (self._failing or self._overflowing)

    def write(self, record: AuditRecord) -> None:
        """Queue a record; never blocks and never raises."""
        if self._thread is not None:
            self._add(encode(record) + b"\n")
        self._on_record(record)

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until every record is written; False if that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._lines, timeout_seconds)

    def close(self) -> None:
        """Write what is left, for a moment."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
            if self._thread.is_alive():
                log.warning("audit records left unwritten", count=len(self._lines))
            elif self._owned and self._descriptor is not None:
                os.close(self._descriptor)
            self._thread = None

    def _add(self, line: bytes) -> None:
        with self._changed:
            full = len(self._lines) >= MOST_RECORDS or self._bytes + len(line) > MOST_BYTES
            if full and not self._overflowing:
                log.error(
                    "audit trail is full; records are dropped", waiting=len(self._lines), on_failure=self._on_failure
                )
            self._overflowing = full
            if not full:
                self._lines.append(line)
                self._bytes += len(line)
                self._changed.notify_all()
        if full:
            self._count("dropped")

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._closing)
                if not self._lines:
                    return
                line = self._lines[0]
            written = self._bring(line)
            with self._changed:
                if written or self._on_failure == "drop" or self._closing:
                    self._lines.popleft()
                    self._bytes -= len(line)
                    self._overflowing = False
                    self._changed.notify_all()
            if written or self._on_failure == "drop" or self._closing:
                self._count("written" if written else "dropped")
            else:
                time.sleep(RETRY_SECONDS)

    def _bring(self, line: bytes) -> bool:
        """Write a line whole; in this thread alone, which may block."""
        rest = memoryview(line)
        try:
            while rest and self._descriptor is not None:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            if not self._failing:
                log.error("cannot write the audit trail", error=str(error), on_failure=self._on_failure)  # noqa: TRY400
            self._failing = True
            return False
        self._failing = False
        return True


def _open(destination: str) -> tuple[int | None, bool]:
    """The file descriptor, and whether it is ours to close. Python's own buffers would block the end of the process."""
    if not destination:
        return None, False
    if destination == "-":
        try:
            return sys.stdout.fileno(), False
        except (io.UnsupportedOperation, ValueError):  # replaced by something without one, as tests do
            return None, False
    with Path(destination).open("ab") as file:
        return os.dup(file.fileno()), True
