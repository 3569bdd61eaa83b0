"""Stores: the objects of a kind by name and by index, and the read-only `View` of several kinds that controllers decide from.

A reflector is the only writer of a store. All other code reads through a `View`.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, cast

from plimsoll.kube.cache.quarantine import Quarantined
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import Index, Resource

T = TypeVar("T", bound=KubeObject)

Name = tuple[str, str]  # namespace ("" for cluster-wide kinds) and name
Listener = Callable[[Resource[Any], KubeObject | None, KubeObject | None], None]  # kind, before, after

_NOTHING: Mapping[str, Any] = {}


def is_older(resource_version: str, than: str) -> bool:
    """Whether one version is known to come before another.

    The API server's versions are decimal numbers that grow over all objects of a kind, and clients may compare them
    (KEP-5504). Versions in another form, as an aggregated API may have them, can only be tested for equality.
    """
    return resource_version.isdecimal() and than.isdecimal() and int(resource_version) < int(than)


class Store(Generic[T]):
    """All objects of one kind, as the API server had them at `resource_version`."""

    def __init__(self, resource: Resource[T]) -> None:
        self.resource = resource
        self.resource_version = ""
        self._synced = False
        self._objects: dict[Name, T] = {}
        self._indexes: dict[Index, dict[str, dict[Name, T]]] = {index: {} for index in resource.indexes}
        self._listeners: list[Listener] = []
        self._quarantined: dict[Name, Quarantined] = {}
        self._unreadable = 0

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def synced(self) -> bool:
        """Whether the store is live now: the list is complete, and the watch neither broke nor fell silent."""
        return self._synced

    @synced.setter
    def synced(self, live: bool) -> None:
        self._synced = live

    def version_at(self, namespace: str) -> str:  # noqa: ARG002 - a store per namespace overrides this
        """The resourceVersion that the view of a namespace has reached."""
        return self.resource_version

    def get(self, namespace: str, name: str) -> T | None:
        return self._objects.get((namespace, name))

    def by(self, index: Index, value: str) -> tuple[T, ...]:
        """The objects with `value` in the index, in the order in which they were first seen."""
        return tuple(self._indexes[index].get(value, {}).values())

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def values(self, index: Index) -> tuple[str, ...]:
        """Every value in the index."""
        return tuple(self._indexes[index])

    def ends(self, index: Index, value: str) -> tuple[T, ...]:
        """The first and the last seen object with `value` in the index, without walking the others."""
        holders = self._indexes.get(index, _NOTHING).get(value)
        if not holders:
            return ()
        return next(iter(holders.values())), next(reversed(holders.values()))

    def names(self) -> set[Name]:
        return {*self._objects, *self._quarantined}

    @property
    def quarantined(self) -> Mapping[Name, Quarantined]:
        """Objects that cannot be decoded, by name. `get` and the indexes show a stand-in or the last decodable state, if any."""
        return self._quarantined

    @property
    def unreadable(self) -> int:
        """How many objects could not even be named since the last complete list: any object may be one of them."""
        return self._unreadable

    @unreadable.setter
    def unreadable(self, count: int) -> None:
        self._unreadable = count

    def copy(self) -> Store[T]:
        """A copy of the current state, for reading in another thread."""
        other: Store[T] = Store(self.resource)
        other.resource_version = self.resource_version
        other._synced = self.synced
        other._quarantined, other._unreadable = dict(self.quarantined), self.unreadable
        other._objects = dict(self._objects)
        other._indexes = {
            index: {value: dict(holders) for value, holders in entries.items()}
            for index, entries in self._indexes.items()
        }
        return other

    # ── writing: for reflectors ──────────────────────────────────────────────────────────────────────────────────────

    def listen(self, listener: Listener) -> None:
        """Call `listener` after each change; it must be quick and must not raise."""
        self._listeners.append(listener)

    def add_index(self, index: Index) -> None:
        """Add an index, and enter the objects that are already here."""
        if index in self._indexes:
            return
        self._indexes[index] = {}
        for name, obj in self._objects.items():
            self._enter(index, name, obj)

    def put(self, obj: T) -> None:
        """Store this state of an object, whatever was stored before.

        A new UID under a known name is another object: listeners first see the old one removed, then the new one added.
        """
        name = (obj.metadata.namespace, obj.metadata.name)
        self._quarantined.pop(name, None)
        before = self._objects.get(name)
        if before is not None and before.metadata.uid != obj.metadata.uid:
            self.remove(*name)
            before = None
        self._objects[name] = obj
        for index, entries in self._indexes.items():
            new = tuple(index.values(obj))
            if before is not None:
                for value in index.values(before):
                    if value not in new:
                        self._leave(entries, value, name)
            for value in new:
                holders = entries.get(value)
                if holders is None:
                    entries[value] = {name: obj}
                else:
                    holders[name] = obj
        for listener in self._listeners:
            listener(self.resource, before, obj)

    def quarantine(self, envelope: Quarantined) -> bool:
        """Keep the envelope of an object that cannot be decoded; returns whether this object is new in quarantine.

        Its stand-in takes its place. Without one, the last decodable state of the same object stays, and that of another object
        of the same name is removed.
        """
        name = (envelope.metadata.namespace, envelope.metadata.name)
        held, known = self._objects.get(name), self._quarantined.get(name)
        if envelope.stand_in is not None:
            self.put(cast("T", envelope.stand_in))
        elif held is not None and held.metadata.uid != envelope.uid:
            self.remove(*name)
        self._quarantined[name] = envelope
        return known is None or known.uid != envelope.uid

    def remove(self, namespace: str, name: str) -> None:
        self._quarantined.pop((namespace, name), None)
        before = self._objects.pop((namespace, name), None)
        if before is None:
            return
        for index, entries in self._indexes.items():
            for value in index.values(before):
                self._leave(entries, value, (namespace, name))
        for listener in self._listeners:
            listener(self.resource, before, None)

    def is_news(self, obj: T | Quarantined) -> bool:
        """Whether the store has neither this state of the object nor a newer one."""
        offered = obj.metadata
        held = self._newest(offered.namespace, offered.name)
        if held is None:
            return True
        known = held.metadata
        if known.resource_version and offered.resource_version == known.resource_version:
            return offered.uid != known.uid
        return not is_older(offered.resource_version, known.resource_version)

    def withdraw(self, namespace: str, name: str, as_of: str) -> bool:
        """Remove an object, unless the stored state is newer than `as_of`, the resourceVersion at which it was gone."""
        held = self._newest(namespace, name)
        if held is None or is_older(as_of, held.metadata.resource_version):
            return False
        self.remove(namespace, name)
        return True

    def _newest(self, namespace: str, name: str) -> T | Quarantined | None:
        return self._quarantined.get((namespace, name)) or self._objects.get((namespace, name))

    def _enter(self, index: Index, name: Name, obj: T) -> None:
        for value in index.values(obj):
            self._indexes[index].setdefault(value, {})[name] = obj

    @staticmethod
    def _leave(entries: dict[str, dict[Name, T]], value: str, name: Name) -> None:
        holders = entries.get(value)
        if holders is not None:
            holders.pop(name, None)
            if not holders:
                del entries[value]


class MultiNamespaceStore(Store[T]):
    """Combines stores of single namespaces into one, for `operator.watchNamespaces`."""

    def __init__(self, resource: Resource[T], parts: Mapping[str, Store[T]]) -> None:
        super().__init__(resource)
        self._parts = dict(parts)
        for part in parts.values():
            part.listen(self._follow)

    @property
    def synced(self) -> bool:
        return all(part.synced for part in self._parts.values())

    @synced.setter
    def synced(self, live: bool) -> None:
        for part in self._parts.values():
            part.synced = live

    @property
    def quarantined(self) -> Mapping[Name, Quarantined]:
        return ChainMap(*(dict(part.quarantined) for part in self._parts.values()))

    @property
    def unreadable(self) -> int:
        return sum(part.unreadable for part in self._parts.values())

    @unreadable.setter
    def unreadable(self, count: int) -> None:
        for part in self._parts.values():
            part.unreadable = count

    def version_at(self, namespace: str) -> str:
        part = self._parts.get(namespace)
        return part.resource_version if part is not None else ""

    def _follow(self, _: Resource[Any], before: KubeObject | None, after: Any) -> None:
        if after is not None:
            self.put(after)
        elif before is not None:
            self.remove(before.metadata.namespace, before.metadata.name)


class View:
    """What decisions read: one store per kind, read-only by convention."""

    def __init__(self, stores: Mapping[Resource[Any], Store[Any]]) -> None:
        self._stores = dict(stores)

    @classmethod
    def of(cls, objects: Mapping[Resource[Any], Iterable[KubeObject]]) -> View:
        """A view of given objects: from a file, a snapshot or a test."""
        stores: dict[Resource[Any], Store[Any]] = {}
        for resource, items in objects.items():
            store = stores[resource] = Store(resource)
            store.synced = True
            for item in items:
                store.put(item)
        return cls(stores)

    def copy(self) -> View:
        return View({resource: store.copy() for resource, store in self._stores.items()})

    def __getitem__(self, resource: Resource[T]) -> Store[T]:
        try:
            return self._stores[resource]
        except KeyError:
            raise LookupError(
                f"{resource.plural} are not watched; add the kind to the controller's `watches`"
            ) from None

    def __contains__(self, resource: Resource[Any]) -> bool:
        return resource in self._stores

    def stores(self) -> Iterable[Store[Any]]:
        return self._stores.values()

    def stale_among(self, resources: Iterable[Resource[Any]]) -> tuple[str, ...]:
        """Those of the given kinds whose store is not live now."""
        return tuple(sorted({one.plural for one in resources if one in self._stores and not self._stores[one].synced}))

    @property
    def stale(self) -> tuple[str, ...]:
        """The kinds whose store is not live now; empty if the view may be acted on."""
        return tuple(sorted(store.resource.plural for store in self._stores.values() if not store.synced))
