"""The least that can answer over TLS: what it takes is taken by the machine and the asker, not by anything of ours."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

from plimsoll.webhook.certificates import make_certificate, serving_context

_BODY = b'{"response":{"uid":"1","allowed":true,"patch":"' + b"x" * 700 + b'"}}'  # as long as ours
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
_LENGTH = b"Content-Length: "


class Thoughtless(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._heard = b""

    def data_received(self, data: bytes) -> None:
        self._heard += data
        head = self._heard.find(b"\r\n\r\n")
        if head < 0:
            return
        start = self._heard.index(_LENGTH) + len(_LENGTH)
        if len(self._heard) >= head + 4 + int(self._heard[start : self._heard.index(b"\r\n", start)]):
            self._heard = b""
            self._transport.write(_ANSWER)


async def main(directory: Path) -> None:
    authority, certificate, key = make_certificate(["127.0.0.1"], datetime.now(UTC))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Thoughtless, "127.0.0.1", 0, ssl=serving_context(certificate, key), backlog=512)
    (directory / "ca.pem").write_bytes(authority)
    (directory / "port").write_text(str(server.sockets[0].getsockname()[1]))
    await asyncio.to_thread(sys.stdin.read)  # until the other end closes it


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
