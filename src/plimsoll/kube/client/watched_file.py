"""Files that are replaced while the process runs, such as a projected token or a rotated certificate."""

from __future__ import annotations

from pathlib import Path

from plimsoll.kube.client.errors import CredentialsError
from plimsoll.runtime.clock import Clock


class WatchedFile:
    """The content of a file, read again once per minute.

    That is often enough: the kubelet replaces a token when a fifth of its lifetime is left, and the shortest lifetime is ten
    minutes.
    """

    REREAD_SECONDS = 60.0

    def __init__(self, path: Path, field: str, clock: Clock) -> None:
        self.path = path
        self._field = field  # where the path is configured, for error messages
        self._clock = clock
        self._content: bytes | None = None
        self._read_at: float | None = None

    def read(self) -> bytes:
        """The content. If it cannot be read again, the previous content: a token stays valid while its file is missing."""
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
        # An empty file is being written; keep the old content until it is complete.
        if content.strip() or self._content is None:
            self._content = content
        self._read_at = now
        return self._content

    def expire(self) -> None:
        """Read the file again at the next use, because the server refused its content."""
        self._read_at = None
