"""Replies squeezed once for everybody.

A deflate stream is a row of blocks, and a full flush makes the next block independent of all before it. So a message is
squeezed once, and each client's stream is one header followed by whichever messages it gets, from wherever it joined.
"""

from __future__ import annotations

import zlib

# RFC 1952: deflate, no flags, no time, unknown operating system.
HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_EMPTY_LAST_BLOCK = b"\x03\x00"
# The picture of a large cluster is megabytes of names that are much alike: more effort saves little and costs twice the time.
_LEVEL = 3


def block(data: bytes) -> bytes:
    squeezer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return squeezer.compress(data) + squeezer.flush(zlib.Z_FULL_FLUSH)


def closed(squeezed: bytes, plain: bytes) -> bytes:
    """A whole gzip file of one block."""
    trailer = zlib.crc32(plain).to_bytes(4, "little") + (len(plain) & 0xFFFFFFFF).to_bytes(4, "little")
    return HEADER + squeezed + _EMPTY_LAST_BLOCK + trailer
