"""Stores all objects, the revision counter that orders their changes, and the history that watches can resume from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from plimsoll.embedded_cluster.api.json_documents import Json, controller_of, name_of, namespace_of
from plimsoll.embedded_cluster.api.kinds import NODES, PODS, ResourceKind

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
Listener = Callable[["ObjectChange"], None]

# Changes kept per kind. kube-apiserver's window grows with traffic between 100 and 100 Ki; clients only depend on it being finite,
# so that a watch from too old a revision is refused.
HISTORY = 20_000


class ObjectChange:
    """One object before and after a change; its JSON is encoded once for all watches."""

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
    """The objects of one kind by namespace and name, indexed by controller and, for pods, by node."""

    def __init__(self, key: tuple[str, str], history: int, everywhere: list[Listener]) -> None:
        self.key = key
        self._everywhere = everywhere  # listeners to the changes of every kind
        self.by_namespace: dict[str, dict[str, Json]] = {}
        self.history: deque[ObjectChange] = deque(maxlen=history)
        self.forgotten = 0  # the revision of the newest change that is no longer in the history
        self.listeners: list[Listener] = []
        self.size = 0
        self.by_owner: dict[str, dict[tuple[str, str], Json]] = {}
        self.by_node: dict[str, dict[tuple[str, str], Json]] = {}
        self._is_pods = key == PODS.storage_key

    def get(self, namespace: str, name: str) -> Json | None:
        return self.by_namespace.get(namespace, {}).get(name)

    def all(self, namespace: str = "") -> Iterator[Json]:
        """All objects in the order of namespace and name, as in etcd."""
        for space in (namespace,) if namespace else sorted(self.by_namespace):
            objects = self.by_namespace.get(space, {})
            for name in sorted(objects):
                yield objects[name]

    def record(self, change: ObjectChange) -> None:
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
    """All collections. Callers validate; storage only assigns the revision and stores the object."""

    def __init__(self, history: int = HISTORY) -> None:
        self.revision = 1
        self.listeners: list[Listener] = []
        self._history = history
        self._collections: dict[tuple[str, str], Collection] = {}

    def collection(self, kind: ResourceKind) -> Collection:
        found = self._collections.get(kind.storage_key)
        if found is None:
            found = self._collections[kind.storage_key] = Collection(kind.storage_key, self._history, self.listeners)
        return found

    def collections(self) -> tuple[Collection, ...]:
        return tuple(self._collections.values())

    def get(self, kind: ResourceKind, namespace: str, name: str) -> Json | None:
        return self.collection(kind).get(namespace, name)

    def put(self, kind: ResourceKind, obj: Json) -> Json:
        """Store an object under the next revision and return the stored object; the caller must not use `obj` afterwards."""
        collection = self.collection(kind)
        before = collection.get(namespace_of(obj), name_of(obj))
        self.revision += 1
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
        collection.record(
            ObjectChange(collection.key, "ADDED" if before is None else "MODIFIED", self.revision, stored, before)
        )
        return stored

    def remove(self, kind: ResourceKind, namespace: str, name: str) -> Json:
        """Remove an object; watches receive it with the revision of the removal."""
        collection = self.collection(kind)
        before = collection.get(namespace, name)
        if before is None:
            raise KeyError(f"{kind.plural} {namespace}/{name}")
        self.revision += 1
        last = {**before, "metadata": {**before["metadata"], "resourceVersion": str(self.revision)}}
        collection.record(ObjectChange(collection.key, "DELETED", self.revision, last, before))
        return last

    def pods_on(self, node: str) -> tuple[Json, ...]:
        return tuple(self.collection(PODS).by_node.get(node, {}).values())

    def owned_by(self, kind: ResourceKind, uid: str) -> tuple[Json, ...]:
        return tuple(self.collection(kind).by_owner.get(uid, {}).values())

    def node(self, name: str) -> Json | None:
        return self.get(NODES, "", name)
