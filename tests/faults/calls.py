"""What a request asks of the API server: verb, kind, object. Rules match on it, the record keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

WRITING_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_VERBS_OF_ONE = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}
_VERBS_OF_MANY = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
# A namespace is an object and a place. Behind /namespaces/NAME these words name a part of the object, all others a kind.
_PARTS_OF_A_NAMESPACE = frozenset({"status", "finalize"})


@dataclass(frozen=True)
class Call:
    """One request in the API server's own words."""

    verb: str
    resource: str = ""  # plural; empty for a path that is no resource, such as /version
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    group: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    link: str = ""  # which operator asks: each has a link of its own

    @property
    def writes(self) -> bool:
        return self.verb in WRITING_VERBS and "dryRun" not in self.params

    @property
    def evicts(self) -> bool:
        return self.verb == "create" and (self.resource, self.subresource) == ("pods", "eviction")

    @property
    def destroys(self) -> bool:
        return self.writes and (self.evicts or self.verb in ("delete", "deletecollection"))

    @property
    def bookkeeping(self) -> bool:
        """Leases and events: written by the runtime on its own account, at times that no decision sets."""
        return self.resource in ("leases", "events")

    @property
    def works(self) -> bool:
        """A write that carries out a decision."""
        return self.writes and not self.bookkeeping

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body) if self.body else None

    @property
    def required_uid(self) -> str:
        """The UID that the server was told to insist on; empty where only a name was given."""
        return self._required("uid")

    @property
    def required_version(self) -> str:
        """The resourceVersion that the server was told to insist on."""
        return self._required("resourceVersion")

    def _required(self, field: str) -> str:
        body = self.json
        if isinstance(body, list):  # a JSON patch says it as a test
            return next(
                (str(op["value"]) for op in body if (op["op"], op["path"]) == ("test", f"/metadata/{field}")), ""
            )
        if not isinstance(body, dict):
            return ""
        if self.evicts:
            body = body.get("deleteOptions") or {}
        where = "preconditions" if self.evicts or self.verb in ("delete", "deletecollection") else "metadata"
        return str((body.get(where) or {}).get(field, ""))

    @property
    def sort(self) -> str:
        """Calls of a sort are alike to a plan: `patch pods`, `create pods/eviction`."""
        return f"{self.verb} {self.resource}" + (f"/{self.subresource}" if self.subresource else "")

    def __str__(self) -> str:
        where = f" {self.namespace}/{self.name}" if self.namespace else f" {self.name}" if self.name else ""
        shown = {key: value for key, value in self.params.items() if key != "continue"}
        asked = " ".join(f"{key}={value}" for key, value in shown.items())
        if "continue" in self.params:
            asked = f"{asked} (next page)"
        return f"{self.sort}{where}" + (f" ?{asked}" if asked else "")


def parse(method: str, path: str, params: Mapping[str, str], body: bytes, link: str) -> Call:
    """The call behind a URL path such as /apis/apps/v1/namespaces/NS/deployments/NAME/status."""
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        group, rest = "", parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, rest = parts[1], parts[3:]
    else:
        return Call(_VERBS_OF_ONE.get(method, method.lower()), name=path, params=params, body=body, link=link)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in _PARTS_OF_A_NAMESPACE:
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    watching = params.get("watch", "").lower() in ("1", "true")
    # A collection watched with a field selector on one name is still a watch; HTTP has no word for it.
    verb = "watch" if watching else (_VERBS_OF_ONE if name else _VERBS_OF_MANY).get(method, method.lower())
    return Call(verb, resource, subresource, namespace, name, group, params, body, link)
