"""Every object, the one counter that orders all changes, and as much of the past as a watch may ask for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from plimsoll.embedded_cluster.api.json_documents import Json, controller_of, name_of, namespace_of
from plimsoll.embedded_cluster.api.kinds import NODES, PODS, Kind

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
Listener = Callable[["Change"], None]

# Changes kept of each kind. kube-apiserver's window grows with traffic between 100 and 100 Ki; what matters to a client is
# that it ends somewhere, so that a watch from too long ago is refused.
HISTORY = 20_000


class Change:
    """One object before and after; the JSON is written once, however many watch."""

    __slots__ = ("_encoded", "before", "collection", "object", "revision", "type")

    def __init__(
        self, collection: tuple[str, str], type_: ChangeType, revision: int, obj: Json, before: Json | None
    ) -> None:
        self.collection = collection  # its storage key
        self.type: ChangeType = type_
        self.revision = revision
        self.object = obj
        self.before = before
        self._encoded: bytes | None = None

    def encoded(self) -> bytes:
        if self._encoded is None:
            self._encoded = msgspec.json.encode(self.object)
        return self._encoded


class Collection:
    """The objects of one kind, by namespace and name, with indexes for pods: by node and by managing owner."""

    def __init__(self, key: tuple[str, str], history: int, everywhere: list[Listener]) -> None:
        self.key = key
        self._everywhere = everywhere  # listeners to the changes of every kind
        self.by_namespace: dict[str, dict[str, Json]] = {}
        self.history: deque[Change] = deque(maxlen=history)
        self.forgotten = 0  # the revision of the newest change that is no longer in the history
        self.listeners: list[Listener] = []
        self.size = 0
        self.by_owner: dict[str, dict[tuple[str, str], Json]] = {}
        self.by_node: dict[str, dict[tuple[str, str], Json]] = {}
        self._is_pods = key == PODS.storage_key

    def get(self, namespace: str, name: str) -> Json | None:
        return self.by_namespace.get(namespace, {}).get(name)

    def all(self, namespace: str = "") -> Iterator[Json]:
        """In the order of namespaces and names, as etcd has its keys."""
        for space in (namespace,) if namespace else sorted(self.by_namespace):
            objects = self.by_namespace.get(space, {})
            for name in sorted(objects):
                yield objects[name]

    def record(self, change: Change) -> None:
        obj, before = change.object, change.before
        space, name = namespace_of(obj), name_of(obj)
        if before is not None:
            self._unindex(before, (space, name))
        if change.type == "DELETED":
            del self.by_namespace[space][name]
            if not self.by_namespace[space]:
                del self.by_namespace[space]
            self.size -= 1
        else:
            self.by_namespace.setdefault(space, {})[name] = obj
            self.size += before is None
            self._index(obj, (space, name))
        if len(self.history) == self.history.maxlen:
            self.forgotten = self.history[0].revision
        self.history.append(change)
        for listener in (*self.listeners, *self._everywhere):
            listener(change)

    def _index(self, obj: Json, key: tuple[str, str]) -> None:
        owner = controller_of(obj)
        if owner is not None:
            self.by_owner.setdefault(owner["uid"], {})[key] = obj
        if self._is_pods and (node := obj["spec"].get("nodeName")):
            self.by_node.setdefault(node, {})[key] = obj

    def _unindex(self, obj: Json, key: tuple[str, str]) -> None:
        owner = controller_of(obj)
        if owner is not None:
            _drop(self.by_owner, owner["uid"], key)
        if self._is_pods and (node := obj["spec"].get("nodeName")):
            _drop(self.by_node, node, key)


def _drop(index: dict[str, dict[tuple[str, str], Json]], value: str, key: tuple[str, str]) -> None:
    entries = index.get(value)
    if entries is not None:
        entries.pop(key, None)
        if not entries:
            del index[value]


class Storage:
    """All collections. Whoever writes has checked everything; here a write only gets its number and its place."""

    def __init__(self, history: int = HISTORY) -> None:
        self.revision = 1
        self.listeners: list[Listener] = []
        self._history = history
        self._collections: dict[tuple[str, str], Collection] = {}

    def collection(self, kind: Kind) -> Collection:
        found = self._collections.get(kind.storage_key)
        if found is None:
            found = self._collections[kind.storage_key] = Collection(kind.storage_key, self._history, self.listeners)
        return found

    def collections(self) -> tuple[Collection, ...]:
        return tuple(self._collections.values())

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        return self.collection(kind).get(namespace, name)

    def put(self, kind: Kind, obj: Json) -> Json:
        """Store an object under the next revision; the caller gives away `obj` and gets what was stored."""
        collection = self.collection(kind)
        before = collection.get(namespace_of(obj), name_of(obj))
        self.revision += 1
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
        collection.record(
            Change(collection.key, "ADDED" if before is None else "MODIFIED", self.revision, stored, before)
        )
        return stored

    def remove(self, kind: Kind, namespace: str, name: str) -> Json:
        """Remove an object; what watches are told carries the revision of the removal."""
        collection = self.collection(kind)
        before = collection.get(namespace, name)
        if before is None:
            raise KeyError(f"{kind.plural} {namespace}/{name}")
        self.revision += 1
        last = {**before, "metadata": {**before["metadata"], "resourceVersion": str(self.revision)}}
        collection.record(Change(collection.key, "DELETED", self.revision, last, before))
        return last

    def pods_on(self, node: str) -> tuple[Json, ...]:
        return tuple(self.collection(PODS).by_node.get(node, {}).values())

    def owned_by(self, kind: Kind, uid: str) -> tuple[Json, ...]:
        return tuple(self.collection(kind).by_owner.get(uid, {}).values())

    def node(self, name: str) -> Json | None:
        return self.get(NODES, "", name)
