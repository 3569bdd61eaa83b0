"""Someone who looks on, as a process of its own: says in a line of JSON when each event was there, and how large it was."""

from __future__ import annotations

import json
import socket
import sys
import time
import zlib
from urllib.parse import urlsplit


def main(url: str) -> None:
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port)) as stream:
        started = time.monotonic()
        request = f"GET /api/v1/stream HTTP/1.0\r\nHost: {where.netloc}\r\nAccept-Encoding: gzip\r\n\r\n"
        stream.sendall(request.encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += stream.recv(65536)
        _, _, rest = head.partition(b"\r\n\r\n")
        unpack, text, wire = zlib.decompressobj(zlib.MAX_WBITS | 16), b"", 0
        rest = rest or stream.recv(1 << 20)
        while rest:
            wire += len(rest)
            text += unpack.decompress(rest)
            while b"\n\n" in text:
                event, _, text = text.partition(b"\n\n")
                kind = event.split(b"\n", 1)[0].decode()
                if kind == "event: beat":
                    continue
                told = {"event": kind, "at": time.monotonic(), "started": started, "bytes": len(event), "wire": wire}
                print(json.dumps(told), flush=True)
                wire = 0
            rest = stream.recv(1 << 20)


if __name__ == "__main__":
    main(sys.argv[1])
