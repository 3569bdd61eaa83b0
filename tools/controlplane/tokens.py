"""Who is behind a bearer token: a token review webhook for the API server, run as a process of its own.

The API server reads its own token file only when it starts. This webhook reads a JSON file at every question, so users
can be added and removed while the cluster runs: `{"<token>": {"username": "alice", "groups": ["devs"]}}`.

Usage: tokens.py PORT FILE. It imports nothing but the standard library, because it is started by its path.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def review(request: dict[str, Any], users: dict[str, Any]) -> dict[str, Any]:
    """Answer one TokenReview."""
    user = users.get(request.get("spec", {}).get("token", ""))
    status = {"authenticated": False} if user is None else {"authenticated": True, "user": user}
    return {"apiVersion": request["apiVersion"], "kind": "TokenReview", "status": status}


class _Handler(BaseHTTPRequestHandler):
    users_file: Path
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(json.dumps(review(request, json.loads(self.users_file.read_text()))).encode())

    def do_GET(self) -> None:
        self._answer(b'"ok"')

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is the base class's)
        """Say nothing: a line for each question would drown what matters."""


def main() -> None:
    """Serve until killed."""
    port, file = int(sys.argv[1]), Path(sys.argv[2])
    _Handler.users_file = file
    ThreadingHTTPServer(("127.0.0.1", port), _Handler).serve_forever()


if __name__ == "__main__":
    main()
