"""The machines of the simulated cloud, read from its stored objects: first an order (ConfigMap), then a Node."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, annotations_of, at, object_labels, terminating
from plimsoll.simulate.invariants.observed import ObservedState

_PROVIDER = "plimsoll.dev/provider"
_KEY = "plimsoll.dev/machine-key"
_GROUP = "plimsoll.dev/machine-group"
_DELETING = "plimsoll.dev/machine-deleting-since"


class CloudMachine(Struct, frozen=True):
    key: str
    group: str  # namespace.name of the NodeGroup
    deleting: bool
    node: Json | None


def key_of_order(record: Json) -> str:
    """The machine key of an order; empty if the ConfigMap is not an order."""
    return str(object_labels(record).get(_KEY, "")) if _PROVIDER in object_labels(record) else ""


def cloud_machines(observed: ObservedState) -> Iterator[CloudMachine]:
    """Each machine once by key: an order whose node has just joined is one machine."""
    seen = set()
    for node in observed.cluster.all(kinds.NODES):
        if _PROVIDER not in object_labels(node):
            continue
        notes = annotations_of(node)
        seen.add(object_labels(node)[_KEY])
        deleting = _DELETING in notes or terminating(node)
        yield CloudMachine(object_labels(node)[_KEY], notes.get(_GROUP, ""), deleting, node)
    for record in observed.cluster.all(kinds.CONFIGMAPS, observed.config.operator.namespace):
        key = key_of_order(record)
        if key and key not in seen:
            order = msgspec.json.decode(at(record, "data", "order", default="{}"))
            yield CloudMachine(key, at(order, "request", "group", default=""), deleting=False, node=None)
