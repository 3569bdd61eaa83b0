"""The machines that the cloud has now, read from the objects that stand for them: an order first, then a Node."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, annotations_of, at, labels_of, terminating
from plimsoll.simulate.invariants.observed import Sight

_PROVIDER = "plimsoll.dev/provider"
_KEY = "plimsoll.dev/machine-key"
_GROUP = "plimsoll.dev/machine-group"
_DELETING = "plimsoll.dev/machine-deleting-since"


class Machine(Struct, frozen=True):
    key: str
    group: str  # namespace.name of the NodeGroup
    deleting: bool
    node: Json | None


def key_of_order(record: Json) -> str:
    """Empty where a ConfigMap is no order."""
    return str(labels_of(record).get(_KEY, "")) if _PROVIDER in labels_of(record) else ""


def machines(sight: Sight) -> Iterator[Machine]:
    """By key, each once: an order that has just become a node is one machine."""
    seen = set()
    for node in sight.cluster.all(kinds.NODES):
        if _PROVIDER not in labels_of(node):
            continue
        notes = annotations_of(node)
        seen.add(labels_of(node)[_KEY])
        deleting = _DELETING in notes or terminating(node)
        yield Machine(labels_of(node)[_KEY], notes.get(_GROUP, ""), deleting, node)
    for record in sight.cluster.all(kinds.CONFIGMAPS, sight.config.operator.namespace):
        key = key_of_order(record)
        if key and key not in seen:
            order = msgspec.json.decode(at(record, "data", "order", default="{}"))
            yield Machine(key, at(order, "request", "group", default=""), deleting=False, node=None)
