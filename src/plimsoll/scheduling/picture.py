"""The packing engine's picture of a view, kept from one question to the next because it is dear to make.

What it answers depends on the view alone: before each question it is compared with the view, object by object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plimsoll.kube.resources import CLAIMS, NAMESPACES, NODES, PODS, VOLUMES, Resource
from plimsoll.kube.store import Name, Store, View
from plimsoll.kube.types import KubeObject
from plimsoll.scheduling.snapshot import Change, Snapshot

SEEN_FOR_PACKING: tuple[Resource[Any], ...] = (NODES, PODS, NAMESPACES, CLAIMS, VOLUMES)


class Picture:
    def __init__(self) -> None:
        self.snapshot = Snapshot.build((), (), claims=(), volumes=())
        self._held: dict[Resource[Any], dict[Name, KubeObject]] = {resource: {} for resource in SEEN_FOR_PACKING}
        self._as_of: dict[Resource[Any], tuple[Store[Any], str]] = {}

    def of(self, view: View) -> Snapshot:
        """The cluster as the view has it now. Whoever changes it does so in a `trial`."""
        self.follow(view)
        return self.snapshot

    def follow(self, view: View) -> Sequence[Change]:
        """Catch up with the view; what has changed since the last time."""
        changes: list[Change] = []
        for resource, held in self._held.items():
            store = view[resource]
            as_of = (store, store.resource_version)
            if store.resource_version and self._as_of.get(resource) == as_of:
                continue  # nothing has changed there since the last question
            self._as_of[resource] = as_of
            for obj in store:
                name = (obj.metadata.namespace, obj.metadata.name)
                before = held.get(name)
                if before is not obj:
                    held[name] = obj
                    changes.append(Change(before, obj))
            if len(held) > len(store):
                changes += [Change(held.pop(name), None) for name in held.keys() - store.names()]
        self.snapshot.apply(changes)
        return changes
