"""The audit trail: one JSON line for everything that was done, refused or would have been done, and why."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from plimsoll.kube.codec import encode


class AuditRecord(msgspec.Struct, frozen=True, rename="camel"):
    """Who did what to which object, why, in which tenure, and what came of it."""

    time: datetime
    operator: str
    epoch: str
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
    """Lines to a file, to standard output, or nowhere; each is flushed before the next action starts."""

    def __init__(self, destination: str = "") -> None:
        self.on_record: Callable[[AuditRecord], None] = lambda _: None  # it must be quick and must not raise
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
        self.on_record(record)

    def close(self) -> None:
        if self._sink is not None and self._owned:
            self._sink.close()
        self._sink = None
