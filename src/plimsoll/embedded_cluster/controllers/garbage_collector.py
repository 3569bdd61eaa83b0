"""The garbage collector (owner references) and the namespace controller."""

from __future__ import annotations

from plimsoll.embedded_cluster.api.json_documents import Json, name_of, namespace_of, terminating, uid_of
from plimsoll.embedded_cluster.api.kinds import NAMESPACES, ResourceKind
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.embedded_cluster.api.writes import FOREGROUND, ORPHAN
from plimsoll.embedded_cluster.controllers.context import ControllerContext, Key

_Entry = tuple[tuple[str, str], str, str]  # storage key, namespace, name


class GarbageCollector:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._dependents: dict[str, dict[_Entry, None]] = {}  # by the UID of an owner
        self._alive: set[str] = set()
        self._owners: dict[str, _Entry] = {}  # terminating owners that wait for their dependents, by UID
        context.storage.listeners.append(self._changed)

    def _changed(self, change: ObjectChange) -> None:
        obj = change.object
        uid = uid_of(obj)
        entry: _Entry = (change.collection, namespace_of(obj), name_of(obj))
        before = _owner_uids(change.before) if change.before is not None else ()
        after = _owner_uids(obj) if change.type != "DELETED" else ()
        if before != after:
            for owner in before:
                self._dependents.get(owner, {}).pop(entry, None)
                if owner in self._owners:
                    self._look_at(owner)
            for owner in after:
                self._dependents.setdefault(owner, {})[entry] = None
                if owner not in self._alive:
                    self._look_at(owner)
        if change.type == "DELETED":
            self._alive.discard(uid)
            self._owners.pop(uid, None)
            if uid in self._dependents:
                self._look_at(uid)
        else:
            self._alive.add(uid)
            if terminating(obj) and obj["metadata"].get("finalizers"):
                self._owners[uid] = entry
                self._look_at(uid)

    def _look_at(self, uid: str) -> None:
        self._context.queue.add(self.reconcile, ("", uid))

    async def reconcile(self, key: Key) -> None:
        uid = key[1]
        dependents = tuple(self._dependents.get(uid, ()))
        if uid in self._owners:
            self._release(uid, dependents)
        elif uid not in self._alive:
            for entry in dependents:
                self._abandon(entry, uid)
            if not self._dependents.get(uid):
                self._dependents.pop(uid, None)

    def _release(self, uid: str, dependents: tuple[_Entry, ...]) -> None:
        """Handle an owner that is deleted with foreground or orphan propagation."""
        owner, kind = self._object(self._owners[uid])
        if owner is None or kind is None or uid_of(owner) != uid:
            return
        finalizers = owner["metadata"].get("finalizers") or ()
        if ORPHAN in finalizers:
            for entry in dependents:
                self._forget_owner(entry, uid)
            self._finalize(kind, owner, ORPHAN)
        elif FOREGROUND in finalizers:
            for entry in dependents:
                obj, its_kind = self._object(entry)
                if obj is not None and its_kind is not None and not terminating(obj):
                    self._context.delete(its_kind, obj, propagationPolicy="Foreground")
            if not self._dependents.get(uid):
                self._finalize(kind, owner, FOREGROUND)

    def _finalize(self, kind: ResourceKind, owner: Json, finalizer: str) -> None:
        current = self._context.storage.get(kind, namespace_of(owner), name_of(owner))
        if current is not None and uid_of(current) == uid_of(owner):
            left = [one for one in current["metadata"].get("finalizers") or () if one != finalizer]
            metadata = {**current["metadata"], "finalizers": left}
            if not left:
                del metadata["finalizers"]
            self._context.objects.writer.store(kind, current, {**current, "metadata": metadata})

    def _abandon(self, entry: _Entry, uid: str) -> None:
        """Handle a deleted owner: the object stays if it has other owners."""
        obj, kind = self._object(entry)
        if obj is None or kind is None:
            self._dependents.get(uid, {}).pop(entry, None)
        elif any(owner in self._alive for owner in _owner_uids(obj)):
            self._forget_owner(entry, uid)
        elif not terminating(obj):
            self._context.delete(kind, obj, propagationPolicy="Background")

    def _forget_owner(self, entry: _Entry, uid: str) -> None:
        obj, kind = self._object(entry)
        if obj is None or kind is None:
            return
        references = [one for one in obj["metadata"].get("ownerReferences") or () if one["uid"] != uid]
        metadata = {**obj["metadata"], "ownerReferences": references}
        if not references:
            del metadata["ownerReferences"]
        self._context.storage.put(kind, {**obj, "metadata": metadata})

    def _object(self, entry: _Entry) -> tuple[Json | None, ResourceKind | None]:
        storage_key, namespace, name = entry
        kind = next((one for one in self._context.objects.catalogue.stored() if one.storage_key == storage_key), None)
        return (None, None) if kind is None else (self._context.storage.get(kind, namespace, name), kind)


def _owner_uids(obj: Json) -> tuple[str, ...]:
    return tuple(owner["uid"] for owner in obj["metadata"].get("ownerReferences") or ())


class NamespaceController:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        context.storage.listeners.append(self._changed)

    def _changed(self, change: ObjectChange) -> None:
        if change.collection == NAMESPACES.storage_key:
            if terminating(change.object) and change.type != "DELETED":
                self._context.queue.add(self.reconcile, ("", name_of(change.object)))
        elif change.type == "DELETED" and (name := namespace_of(change.object)):
            home = self._context.storage.get(NAMESPACES, "", name)
            if home is not None and terminating(home):
                self._context.queue.add(self.reconcile, ("", name))

    async def reconcile(self, key: Key) -> None:
        context, name = self._context, key[1]
        home = context.storage.get(NAMESPACES, "", name)
        if home is None or not terminating(home):
            return
        empty = True
        for kind in context.objects.catalogue.stored():
            if kind.namespaced:
                for obj in tuple(context.storage.collection(kind).all(name)):
                    if not terminating(obj):
                        context.delete(kind, obj)
                    empty = empty and context.storage.get(kind, name, name_of(obj)) is None
        if empty:
            context.objects.writer.store(NAMESPACES, home, {**home, "spec": {"finalizers": []}})
