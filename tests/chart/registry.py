"""A registry for OCI artefacts in memory, on loopback: as much of the distribution specification as pushing and pulling needs."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_BLOB = re.compile(r"/v2/(.+)/blobs/(sha256:[0-9a-f]{64})$")
_UPLOAD = re.compile(r"/v2/(.+)/blobs/uploads/(.*)$")
_MANIFEST = re.compile(r"/v2/(.+)/manifests/(.+)$")


class Registry(ThreadingHTTPServer):
    """By repository and digest or tag: the type and the bytes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


@contextmanager
def registry() -> Iterator[Registry]:
    server = Registry()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Registry

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/v2":
            self._answer(200)
        elif match := _BLOB.match(self.path):
            data = self.server.blobs.get((match[1], match[2]))
            self._found(data, "application/octet-stream")
        elif match := _MANIFEST.match(self.path):
            kind, manifest = self.server.manifests.get((match[1], match[2]), ("", None))
            self._found(manifest, kind)
        else:
            self._answer(404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        match = _UPLOAD.match(self.path)
        self._read()
        self._answer(202 if match else 404, {"Location": f"/v2/{match[1]}/blobs/uploads/one?"} if match else {})

    def do_PUT(self) -> None:
        path, _, query = self.path.partition("?")
        data = self._read()
        digest = digest_of(data)
        if match := _UPLOAD.match(path):
            if digest.replace(":", "%3A") not in query and digest not in query:
                self._answer(400)
                return
            self.server.blobs[match[1], digest] = data
        elif match := _MANIFEST.match(path):
            kind = self.headers["Content-Type"]
            for reference in (match[2], digest):
                self.server.manifests[match[1], reference] = (kind, data)
        else:
            self._answer(404)
            return
        self._answer(201, {"Location": path, "Docker-Content-Digest": digest})

    def _read(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def _found(self, data: bytes | None, kind: str) -> None:
        if data is None:
            self._answer(404)
        else:
            self._answer(200, {"Content-Type": kind, "Docker-Content-Digest": digest_of(data)}, data)

    def _answer(self, status: int, headers: Mapping[str, str] | None = None, data: bytes = b"") -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
