"""Gzip streams whose messages are compressed once for all clients.

A deflate stream is a sequence of blocks, and a full flush makes the next block independent of the previous ones. Each message is
compressed once; a client's stream is one header followed by the messages since it joined.
"""

from __future__ import annotations

import zlib

# RFC 1952: deflate, no flags, no time, unknown operating system.
HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_EMPTY_LAST_BLOCK = b"\x03\x00"
# A large cluster's snapshot is megabytes of similar names: a higher level saves little and takes twice the time.
_LEVEL = 3


def gzip_block(data: bytes) -> bytes:
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush(zlib.Z_FULL_FLUSH)


def gzip_file(compressed: bytes, plain: bytes) -> bytes:
    """A complete gzip file of one block."""
    trailer = zlib.crc32(plain).to_bytes(4, "little") + (len(plain) & 0xFFFFFFFF).to_bytes(4, "little")
    return HEADER + compressed + _EMPTY_LAST_BLOCK + trailer
