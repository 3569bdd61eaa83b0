"""The page's own files, read and squeezed once: a browser asks for some forty of them before it can show anything."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from pathlib import Path

from msgspec import Struct

ASSETS = Path(__file__).parent / "assets"
INDEX = "index.html"
_CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class PageFile(Struct, frozen=True):
    content_type: str
    tag: str
    plain: bytes
    squeezed: bytes


@cache
def page_files() -> dict[str, PageFile]:
    """By their path below `assets`. Whatever else is asked for is not there: no path of a request ever reaches the disk."""
    return {
        path.relative_to(ASSETS).as_posix(): _read(path, content_type)
        for path in ASSETS.rglob("*")
        if (content_type := _CONTENT_TYPES.get(path.suffix)) is not None
    }


def _read(path: Path, content_type: str) -> PageFile:
    data = path.read_bytes()
    tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    return PageFile(content_type, tag, data, gzip.compress(data, mtime=0))
