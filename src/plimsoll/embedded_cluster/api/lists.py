"""Lists of a kind at one revision, whole or in pages of the same revision."""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Mapping

import msgspec

from plimsoll.embedded_cluster.api.event_versions import shown_form
from plimsoll.embedded_cluster.api.json_documents import Json
from plimsoll.embedded_cluster.api.kinds import ResourceKind
from plimsoll.embedded_cluster.api.selectors import matcher
from plimsoll.embedded_cluster.api.status import StatusError, bad_request, expired
from plimsoll.embedded_cluster.api.storage import Storage

# Paged lists in progress. Stored objects are immutable, so the rest of a list is only references.
_OPEN_LISTS = 64
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the "
    "continue parameter."
)


class _Token(msgspec.Struct, rename="camel"):
    list_number: int
    position: int


class Lists:
    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._open: OrderedDict[int, tuple[int, list[Json]]] = OrderedDict()
        self._numbers = 0

    def forget(self) -> None:
        """Expire every continue token."""
        self._open.clear()

    def page(self, kind: ResourceKind, namespace: str, params: Mapping[str, str]) -> Json:
        limit = _number(params, "limit")
        if params.get("continue"):
            revision, objects, position, number = self._continued(params["continue"])
        else:
            revision, objects = self._snapshot(kind, namespace, params)
            self._numbers += 1
            position, number = 0, self._numbers
        end = position + limit if limit else len(objects)
        metadata: Json = {"resourceVersion": str(revision)}
        if end < len(objects):
            metadata["continue"] = _written(_Token(number, end))
            if not params.get("labelSelector") and not params.get("fieldSelector"):
                metadata["remainingItemCount"] = len(objects) - end
            self._open[number] = (revision, objects)
            while len(self._open) > _OPEN_LISTS:
                self._open.popitem(last=False)
        return {
            "kind": f"{kind.kind}List",
            "apiVersion": kind.api_version,
            "metadata": metadata,
            "items": [shown_form(kind, obj) for obj in objects[position:end]],
        }

    def _snapshot(self, kind: ResourceKind, namespace: str, params: Mapping[str, str]) -> tuple[int, list[Json]]:
        revision = self._storage.revision
        asked = _number(params, "resourceVersion")
        if asked > revision:
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            message = f"Timeout: Too large resource version: {asked}, current: {revision}"
            raise StatusError(504, "Timeout", message, details={"causes": [cause]}, retry_after_seconds=1)
        collection = self._storage.collection(kind)
        if params.get("resourceVersionMatch") == "Exact" and asked < max(collection.forgotten, revision):
            raise expired(f"The resourceVersion for the provided list is too old: {asked} ({revision})")
        matches = matcher(kind, params.get("labelSelector", ""), params.get("fieldSelector", ""))
        objects = collection.all(namespace)
        return revision, [obj for obj in objects if matches(obj)] if matches else list(objects)

    def _continued(self, text: str) -> tuple[int, list[Json], int, int]:
        try:
            token = msgspec.json.decode(base64.urlsafe_b64decode(text), type=_Token)
        except (ValueError, msgspec.MsgspecError):
            raise bad_request("continue key is not valid: it was not given out by this server") from None
        known = self._open.get(token.list_number)
        if known is None:
            raise expired(_TOO_OLD)
        revision, objects = known
        return revision, objects, token.position, token.list_number


def _written(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()


def _number(params: Mapping[str, str], name: str) -> int:
    text = params.get(name) or "0"
    if not text.isdecimal():
        raise bad_request(f"invalid {name}: {text!r} is no number")
    return int(text)
