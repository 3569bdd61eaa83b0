"""Expectations: our own writes that the view has not shown yet.

A watch lags behind. A controller that decides again before the watch shows its last write decides on the state before that
write, and repeats it. So the reconciler leaves a key alone until the view has caught up with everything written for it.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from plimsoll.kube.cache.store import View
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import Key
from plimsoll.runtime.decision import Ref


class _Awaited(Struct, frozen=True):
    target: Ref
    resource_version: str  # of the write; empty for a removal, which has no version


class Expectations:
    """The changes that each key waits to see in the view."""

    def __init__(self) -> None:
        self._awaited: dict[Key, deque[_Awaited]] = {}

    def wrote(self, key: Key, target: Ref, resource_version: str) -> None:
        """Expect the view to reach this version of an object that was written, or read live."""
        self._awaited.setdefault(key, deque()).append(_Awaited(target, resource_version))

    def removed(self, key: Key, target: Ref) -> None:
        """Expect the view to show the object terminating or gone."""
        self._awaited.setdefault(key, deque()).append(_Awaited(target, ""))

    def forget(self) -> None:
        """Drop all expectations, at the start of a leadership term: earlier writes are in the view or never happened."""
        self._awaited.clear()

    def behind(self, key: Key, view: View) -> Ref | None:
        """The first object whose change the view has not shown yet, or None."""
        waiting = self._awaited.get(key)
        # Stop at the first missing one: this runs after each of a thousand changes, and checking all thousand writes each time
        # would cost more than the writes themselves.
        while waiting:
            if not _shown(waiting[0], view):
                return waiting[0].target
            waiting.popleft()
        self._awaited.pop(key, None)
        return None


def _shown(awaited: _Awaited, view: View) -> bool:
    target = awaited.target
    if target.resource not in view:
        return True  # no controller reads this kind
    store = view[target.resource]
    seen: KubeObject | None = store.get(target.namespace, target.name)
    if not awaited.resource_version:
        return seen is None or seen.metadata.uid != target.uid or seen.terminating
    if seen is not None and _at_least(seen.metadata.resource_version, awaited.resource_version):
        return True
    # All versions of a kind come from one counter: a store past the write has shown it, even if the object was deleted since.
    return _at_least(store.version_at(target.namespace), awaited.resource_version)


def _at_least(seen: str, wanted: str) -> bool:
    if seen.isdecimal() and wanted.isdecimal():
        return int(seen) >= int(wanted)
    return seen == wanted
