"""Caches a `Snapshot` per view between requests, because it is expensive to build.

The result depends on the view alone. A new store is compared object by object; after that the store reports changed
objects, so a request costs as much as has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from plimsoll.kube.cache.store import Name, Store, View
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import CLAIMS, CSI_NODES, NAMESPACES, NODES, PODS, STORAGE_CLASSES, VOLUMES, Resource
from plimsoll.scheduling.snapshot import CacheChange, Snapshot

SEEN_FOR_PACKING: tuple[Resource[Any], ...] = (NODES, PODS, NAMESPACES, CLAIMS, VOLUMES)
# Not every view has these. Without them, nothing is known of attach limits and of unbound claims.
SEEN_IF_WATCHED: tuple[Resource[Any], ...] = (STORAGE_CLASSES, CSI_NODES)
# Beyond so many changed names, which accumulate while there are no requests, comparing the whole store is as fast.
MOST_CHANGED = 50_000


T = TypeVar("T", bound=KubeObject)


class SnapshotCache:
    def __init__(self) -> None:
        self.snapshot = Snapshot.build((), (), claims=(), volumes=())
        self._held: dict[Resource[Any], dict[Name, KubeObject]] = {
            resource: {} for resource in (*SEEN_FOR_PACKING, *SEEN_IF_WATCHED)
        }
        self._followed: dict[Resource[Any], _Followed] = {}

    def of(self, view: View) -> Snapshot:
        """Return the cluster as the view has it now. Callers change it only inside `trial`."""
        self.follow(view)
        return self.snapshot

    def follow(self, view: View) -> Sequence[CacheChange]:
        """Catch up with the view and return the changes since the last call."""
        if not self._followed:
            return self._begin(view)
        changes: list[CacheChange] = []
        for resource, held in self._held.items():
            if resource in SEEN_IF_WATCHED and resource not in view:
                continue
            store = view[resource]
            followed = self._followed.get(resource)
            if followed is None or followed.store is not store:
                followed = self._followed[resource] = _Followed(store)
            changed = followed.taken()
            names = held.keys() | store.names() if changed is None else changed
            for name in names:
                before, after = held.get(name), store.get(*name)
                if before is after:
                    continue
                if after is None:
                    del held[name]
                else:
                    held[name] = after
                changes.append(CacheChange(before, after))
        self.snapshot.apply(changes)
        return changes

    def _begin(self, view: View) -> Sequence[CacheChange]:
        """Build everything in one pass, which is much faster than change by change."""
        for resource, held in self._held.items():
            if resource in SEEN_IF_WATCHED and resource not in view:
                continue
            store = view[resource]
            followed = self._followed[resource] = _Followed(store)
            followed.taken()
            held.update(((obj.metadata.namespace, obj.metadata.name), obj) for obj in store)
        self.snapshot = Snapshot.build(
            view[NODES],
            view[PODS],
            namespaces=view[NAMESPACES],
            claims=view[CLAIMS],
            volumes=view[VOLUMES],
            storage_classes=_if_watched(view, STORAGE_CLASSES),
            csi_nodes=_if_watched(view, CSI_NODES),
        )
        return [CacheChange(None, obj) for held in self._held.values() for obj in held.values()]


def _if_watched(view: View, resource: Resource[T]) -> Store[T] | None:
    return view[resource] if resource in view else None  # noqa: SIM401 - a view is no mapping


class _Followed:
    """A store, and the names of its objects that changed since the last request."""

    def __init__(self, store: Store[Any]) -> None:
        self.store = store
        self._changed: dict[Name, None] | None = None  # None: all objects may have changed
        store.listen(self._note)

    def _note(self, _: Resource[Any], before: KubeObject | None, after: KubeObject | None) -> None:
        obj = after if after is not None else before
        if obj is None or self._changed is None:
            return
        self._changed[obj.metadata.namespace, obj.metadata.name] = None
        if len(self._changed) > MOST_CHANGED:
            self._changed = None

    def taken(self) -> Sequence[Name] | None:
        changed, self._changed = self._changed, {}
        return None if changed is None else tuple(changed)
