"""Own writes that the view has not shown yet.

A watch is always a little behind. Whoever decides again before it shows the last write decides on the state before that
write, and does it twice. So a key is left alone until the view has caught up with everything that was written for it.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import KubeObject
from plimsoll.kube.types.resources import Key
from plimsoll.runtime.decision import Ref


class _Awaited(Struct, frozen=True):
    target: Ref
    resource_version: str  # of the write; empty where the object is to go, which carries no version


class Expectations:
    """What each key is waiting to see."""

    def __init__(self) -> None:
        self._awaited: dict[Key, deque[_Awaited]] = {}

    def wrote(self, key: Key, target: Ref, resource_version: str) -> None:
        """An object was made or changed, or was read live at this version: wait until the view is as far."""
        self._awaited.setdefault(key, deque()).append(_Awaited(target, resource_version))

    def removed(self, key: Key, target: Ref) -> None:
        """An object was told to go: wait until the view shows it going or gone."""
        self._awaited.setdefault(key, deque()).append(_Awaited(target, ""))

    def forget(self) -> None:
        """A new tenure: its decisions follow a view that every earlier write of ours is older than or absent from."""
        self._awaited.clear()

    def behind(self, key: Key, view: View) -> Ref | None:
        """The first object whose change the view has not shown yet, or None."""
        waiting = self._awaited.get(key)
        # From the front, and only until the first that is missing: asked after each of a thousand changes, a look at all
        # of a thousand writes would cost more than the writes themselves.
        while waiting:
            if not _shown(waiting[0], view):
                return waiting[0].target
            waiting.popleft()
        self._awaited.pop(key, None)
        return None


def _shown(awaited: _Awaited, view: View) -> bool:
    target = awaited.target
    if target.resource not in view:
        return True  # nobody decides on this kind
    store = view[target.resource]
    seen: KubeObject | None = store.get(target.namespace, target.name)
    if not awaited.resource_version:
        return seen is None or seen.metadata.uid != target.uid or seen.terminating
    if seen is not None and _at_least(seen.metadata.resource_version, awaited.resource_version):
        return True
    # Versions of a kind are one counter: a store that is past the write has shown it, be the object since deleted or not.
    return _at_least(store.version_at(target.namespace), awaited.resource_version)


def _at_least(seen: str, wanted: str) -> bool:
    if seen.isdecimal() and wanted.isdecimal():
        return int(seen) >= int(wanted)
    return seen == wanted
