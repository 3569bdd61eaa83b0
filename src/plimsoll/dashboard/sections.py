"""A part of the picture: records by name, each made and encoded when something that it shows has changed, and not before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import structlog
from msgspec import Raw, Struct

log = structlog.get_logger()

_encode = msgspec.json.Encoder().encode


class Section:
    def __init__(self, record: Callable[[str], Struct | None]) -> None:
        self._record = record
        self._stale: set[str] = set()
        self.encoded: dict[str, Raw] = {}

    def touch(self, *names: str) -> None:
        self._stale.update(names)

    def touch_all(self, names: Iterable[str] = ()) -> None:
        """Everything that is shown, and these."""
        self._stale.update(self.encoded, names)

    @property
    def stale(self) -> bool:
        return bool(self._stale)

    def take_stale(self) -> set[str]:
        taken, self._stale = self._stale, set()
        return taken

    def renew(self, name: str) -> bool:
        """Make one record anew; whether it now says something else. One that cannot be made stays as it was."""
        try:
            record: Any = self._record(name)
        except Exception:
            log.exception("a record of the dashboard could not be made", name=name)
            return False
        before = self.encoded.get(name)
        if record is None:
            return self.encoded.pop(name, None) is not None
        after = _encode(record)
        if before is not None and bytes(before) == after:
            return False
        self.encoded[name] = Raw(after)
        return True
