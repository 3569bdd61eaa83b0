"""One request of the operator as the API server received it: sender, target and preconditions."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from plimsoll.embedded_cluster.api.json_documents import Json, at
from plimsoll.embedded_cluster.api.server import ApiRequest

OPERATOR_USER_AGENT = "plimsoll/"  # prefix of the user agents of operator processes


class OperatorRequest:
    def __init__(self, request: ApiRequest) -> None:
        self.who = request.user_agent
        self.method = request.method
        self.path = request.path
        self.params = request.params
        self._body = request.body
        parts = request.path.strip("/").split("/")
        parts = parts[2:] if parts[:1] == ["api"] else parts[3:]
        self.namespace = ""
        if parts[:1] == ["namespaces"] and len(parts) > 2:
            self.namespace, parts = parts[1], parts[2:]
        self.plural, self.name, self.part = (*parts, "", "", "")[:3]

    @property
    def writes(self) -> bool:
        return self.method not in ("GET", "HEAD")

    @property
    def evicts(self) -> bool:
        return self.part == "eviction"

    @property
    def destroys(self) -> bool:
        return self.evicts or self.method == "DELETE"

    @cached_property
    def body(self) -> Json:
        found: Any = msgspec.json.decode(self._body) if self._body else {}
        return found if isinstance(found, dict) else {}

    @property
    def uid(self) -> str:
        """The UID precondition, empty if there is none."""
        if self.evicts:
            return str(at(self.body, "deleteOptions", "preconditions", "uid", default=""))
        path = ("preconditions", "uid") if self.method == "DELETE" else ("metadata", "uid")
        return str(at(self.body, *path, default=""))

    @property
    def resource_version(self) -> str:
        """The resourceVersion precondition, empty if there is none."""
        path = ("preconditions", "resourceVersion") if self.method == "DELETE" else ("metadata", "resourceVersion")
        return str(at(self.body, *path, default=""))

    def __str__(self) -> str:
        return f"{self.method} {self.path} by {self.who}"
