"""The few requests that the tools themselves make to the API server, with the standard library alone."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import ssl
import threading
import urllib.parse
from pathlib import Path
from typing import Any


class ApiError(RuntimeError):
    """The API server refused."""

    def __init__(self, method: str, path: str, status: int, message: str) -> None:
        super().__init__(f"{method} {path}: {status} {message}")
        self.status = status


class Api:
    """JSON over HTTPS to one API server, one connection a thread."""

    def __init__(self, server: str, ca_file: Path, token: str) -> None:
        address = urllib.parse.urlsplit(server)
        self._host, self._port = address.hostname or "127.0.0.1", address.port
        self._tls = ssl.create_default_context(cafile=str(ca_file))
        self._token = token
        self._local = threading.local()
        self._connections: list[http.client.HTTPSConnection] = []

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        timeout: float = 120.0,
    ) -> Any:
        """One request, never repeated; the parsed answer, or ApiError."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type, "Accept": "application/json"}
        connection = self._connection(timeout)
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            raise
        if response.status >= 400:
            raise ApiError(method, path, response.status, _message_of(text))
        return json.loads(text) if text else None

    def close(self) -> None:
        """Close the connections of every thread."""
        for connection in self._connections:
            connection.close()

    def _connection(self, timeout: float) -> http.client.HTTPSConnection:
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)
            self._local.connection = connection
            self._connections.append(connection)
        connection.timeout = timeout
        if connection.sock is not None:
            # Nothing is awaited on an idle connection, so something to read means that the server has closed it.
            if select.select([connection.sock], [], [], 0)[0]:
                connection.close()
            else:
                connection.sock.settimeout(timeout)
        return connection


def _message_of(text: bytes) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.decode(errors="replace")[:500]


def answers(url: str, ca_file: Path, *, timeout: float = 2.0) -> bool:
    """Whether a health endpoint answers with success.

    Over HTTPS it must prove to be of this cluster: a stranger that took the port must not pass for our component.
    """
    address = urllib.parse.urlsplit(url)
    connection: http.client.HTTPConnection
    try:
        if address.scheme == "https":
            tls = ssl.create_default_context(cafile=str(ca_file))
            connection = http.client.HTTPSConnection(address.netloc, timeout=timeout, context=tls)
        else:
            connection = http.client.HTTPConnection(address.netloc, timeout=timeout)
        with contextlib.closing(connection):
            connection.request("GET", address.path + (f"?{address.query}" if address.query else ""))
            return connection.getresponse().status == 200
    # Among them: the certificate is not made yet.
    except (OSError, http.client.HTTPException):
        return False
