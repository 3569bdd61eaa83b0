"""A file that someone else replaces while we run: a projected token, a rotated certificate."""

from __future__ import annotations

from pathlib import Path

from plimsoll.kube.client.errors import CredentialsError
from plimsoll.runtime.clock import Clock


class WatchedFile:
    """The content of a file, read again once a minute.

    That is soon enough: the kubelet replaces a token when a fifth of its life is left, and the shortest life is ten minutes.
    """

    REREAD_SECONDS = 60.0

    def __init__(self, path: Path, field: str, clock: Clock) -> None:
        self.path = path
        self._field = field  # where the path was written, for whoever has to mend it
        self._clock = clock
        self._content: bytes | None = None
        self._read_at: float | None = None

    def read(self) -> bytes:
        """The content; where it cannot be read again, what it was (a token outlives a moment without its file)."""
        now = self._clock.monotonic()
        if self._content is not None and self._read_at is not None and now - self._read_at < self.REREAD_SECONDS:
            return self._content
        try:
            content = self.path.read_bytes()
        except OSError as error:
            if self._content is None:
                raise CredentialsError(
                    f"{self._field}: {self.path} cannot be read: {error.strerror or error}"
                ) from error
            content = self._content
        # An empty file is one that is being written: the old content serves until it is whole.
        if content.strip() or self._content is None:
            self._content = content
        self._read_at = now
        return self._content

    def expire(self) -> None:
        """Read it again at the next use: the server refused what it held."""
        self._read_at = None
