"""An API server of a page: objects as JSON, merge patches, UIDs and versions that are insisted on. Nothing else is needed.

Objects are interned: a state of the world is then a few small numbers, and what follows from one is worked out once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from plimsoll.controllers.allocation.container_nodes import WEKA_CONTAINERS
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.kube.codec import decode
from plimsoll.kube.types.coordination import Lease
from plimsoll.runtime.decision import Create, Delete, Patch
from plimsoll.runtime.transaction import Write

Json = dict[str, Any]
T = TypeVar("T")

ABSENT = 0  # the number of an object that is not there


class Objects:
    """Every state of an object that was ever reached, by number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {"": ABSENT}
        self.json: list[Json] = [{}]
        self._decoded: dict[tuple[int, type], Any] = {}

    def number(self, body: Json) -> int:
        text = json.dumps(body, sort_keys=True)
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.json)
            self.json.append(body)
        return number

    def decoded(self, number: int, kind: type[T]) -> T:
        found = self._decoded.get((number, kind))
        if found is None:
            found = self._decoded[number, kind] = decode(json.dumps(self.json[number]).encode(), kind)
        return found


class Server:
    """What a write makes of an object: a pure function of the two, remembered."""

    def __init__(self) -> None:
        self.objects = Objects()
        self._outcomes: dict[tuple[int, int, int], tuple[str, int]] = {}
        self.writes: list[Write] = []
        self._write_numbers: dict[str, int] = {}

    def write_number(self, write: Write) -> int:
        """Writes have numbers, too: one that is still on its way is part of the world's state."""
        text = repr(write)
        if text not in self._write_numbers:
            self._write_numbers[text] = len(self.writes)
            self.writes.append(write)
        return self._write_numbers[text]

    def apply(self, write: int, target: int, version: int) -> tuple[str, int]:
        """("done", the new state) or a refusal; `version` is what a new state of the object will carry."""
        key = (write, target, version)
        if key not in self._outcomes:
            self._outcomes[key] = self._apply(self.writes[write], target, version)
        return self._outcomes[key]

    def _apply(self, write: Write, target: int, version: int) -> tuple[str, int]:
        there = self.objects.json[target]
        if isinstance(write, Create):
            if target != ABSENT:
                return "conflict", ABSENT
            metadata = {**write.body.get("metadata", {}), "name": write.name, "uid": f"{write.name}-{version}"}
            return "done", self.objects.number(_stamped({**write.body, "metadata": metadata}, version))
        assert isinstance(write, Patch), f"the protocol deletes nothing: {write}"
        # S3: what changes a container insists on which one it is and how it was.
        assert write.target.uid and write.target.resource_version and write.if_unchanged, f"unguarded: {write}"
        if target == ABSENT:
            return "gone", ABSENT
        metadata = there["metadata"]
        if (metadata["uid"], metadata["resourceVersion"]) != (write.target.uid, write.target.resource_version):
            return "conflict", ABSENT
        return "done", self.objects.number(_stamped(merged(there, write.body), version))

    def edited(self, target: int, version: int, change: Callable[[Json], Json] = lambda body: body) -> int:
        """The object after a write of someone else's."""
        return self.objects.number(_stamped(change(self.objects.json[target]), version))


def kind_of(write: Write) -> type[Lease | WekaContainer]:
    resource = write.resource if isinstance(write, Create) else write.target.resource
    return WekaContainer if resource == WEKA_CONTAINERS else Lease


def name_of(write: Write) -> str:
    assert not isinstance(write, Delete)
    return write.name if isinstance(write, Create) else write.target.name


def _stamped(body: Json, version: int) -> Json:
    return {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}


def merged(there: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    base = dict(there) if isinstance(there, dict) else {}
    for name, value in patch.items():
        if value is None:
            base.pop(name, None)
        else:
            base[name] = merged(base.get(name), value)
    return base
