"""The audit trail: one JSON line per action that was done, refused or, in read-only mode, would have been done.

The actuator writes it; the dashboard listens to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from plimsoll.kube.codec import encode


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
    """Writes lines to a file, to standard output or nowhere, and flushes each before the next action starts."""

    def __init__(self, destination: str = "", on_record: Callable[[AuditRecord], None] = lambda _: None) -> None:
        """on_record: called with every record; it must be quick and must not raise."""
        self._on_record = on_record
        self._sink: BinaryIO | None = None
        self._owned = False
        if destination == "-":
            self._sink = sys.stdout.buffer
        elif destination:
            self._sink, self._owned = Path(destination).open("ab"), True  # noqa: SIM115 - closed by `close`

    def write(self, record: AuditRecord) -> None:
        if self._sink is not None:
            self._sink.write(encode(record) + b"\n")
            self._sink.flush()
        self._on_record(record)

    def close(self) -> None:
        if self._sink is not None and self._owned:
            self._sink.close()
        self._sink = None
