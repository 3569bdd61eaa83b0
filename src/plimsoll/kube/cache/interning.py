"""Interning: shares equal parts between objects, because the replicas of an owner differ in little more than their names.

The reflector calls `intern_parts` for each decoded object. Part by part, the object takes over what is equal in a relative that
the store already holds: its own previous version, or else a sibling with the same owner. There is no separate table of parts,
so nothing is left behind when the last replica is deleted. 20,000 pods take about a quarter of the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache
from operator import attrgetter
from sys import intern
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import fields, force_setattr

from plimsoll.kube.cache.store import Store
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.meta import Condition, KubeObject
from plimsoll.kube.types.resources import BY_OWNER, owner_key

T = TypeVar("T", bound=KubeObject)

# Numbers are too small to share, and these names are never equal in two objects, or interned anyway.
_NUMBERS = (int, bool, int | None, bool | None)
_OWN_NAMES = frozenset({"name", "namespace", "uid", "resource_version", "node_name"})
_ATOMIC = frozenset({str, dict, datetime, type(None)})  # shared as a whole or not at all


def intern_parts(obj: T, store: Store[T]) -> None:
    """Replace parts of `obj` by equal parts of its relatives in `store`.

    Call it only for an object that no other code has seen: it changes frozen Structs in place. The object's value stays the same.
    """
    metadata = obj.metadata
    # CPython's table drops an interned string with its last reference (3.11, and 3.12.7 and later).
    force_setattr(metadata, "namespace", intern(metadata.namespace))
    if isinstance(obj, Pod) and obj.spec.node_name:
        force_setattr(obj.spec, "node_name", intern(obj.spec.node_name))
    before = store.get(metadata.namespace, metadata.name)
    if before is not None and before.metadata.uid == metadata.uid:
        _share_parts(obj, before, before)
        return
    owner = metadata.controller
    siblings = store.ends(BY_OWNER, owner_key(metadata.namespace, owner.uid)) if owner is not None else ()
    if siblings:
        # Two siblings, because the replicas of an owner may have two shapes, such as spot and on-demand.
        first, last = siblings
        _share_parts(obj, last, first)
        return
    for condition in getattr(getattr(obj, "status", None), "conditions", None) or ():
        if type(condition) is Condition:
            _intern_words(condition)


def _share_parts(obj: KubeObject, relative: KubeObject, second: KubeObject) -> None:
    for name in type(obj).__struct_fields__:
        part = getattr(obj, name)
        # A kind's own Structs have a schema, so equal values are the same. In the free JSON of a custom resource they are not:
        # there, 1 equals true and 1.0.
        if isinstance(part, Struct):
            _share_fields(part, getattr(relative, name), getattr(second, name))


def _share_fields(fresh: Struct, relative: Struct, second: Struct) -> None:
    """Let `fresh` take over what is equal in `relative`, or else in `second`, and descend into unequal parts."""
    names, read = _shareable(type(fresh))
    for name, part, other in zip(names, read(fresh), read(relative), strict=True):
        if part is other:
            continue
        if part == other:
            force_setattr(fresh, name, other)
            continue
        kind = type(part)
        if kind in _ATOMIC and kind is not dict:
            continue
        third = other if second is relative else getattr(second, name)
        if part == third:
            force_setattr(fresh, name, third)
        elif kind is not type(other):
            continue
        elif kind is tuple:
            _share_items(fresh, name, part, other)
        elif isinstance(part, Struct):
            _share_fields(part, other, third if type(third) is kind else other)


def _share_items(fresh: Struct, name: str, items: tuple[Any, ...], others: tuple[Any, ...]) -> None:
    """Share item by item: of a pod's volumes only the token volume is unique, of its conditions only the times."""
    taken: list[Any] | None = None
    for place, (item, other) in enumerate(zip(items, others, strict=False)):
        if item is other:
            continue
        if item == other:
            if taken is None:
                taken = list(items)
            taken[place] = other
        elif type(item) is Condition:
            # Four or five in each of thousands of pods, and mostly unequal only in their times: worth a shortcut.
            _intern_words(item)
        elif isinstance(item, Struct) and type(item) is type(other):
            _share_fields(item, other, other)
    if taken is not None:
        force_setattr(fresh, name, tuple(taken))


def _intern_words(condition: Condition) -> None:
    force_setattr(condition, "type", intern(condition.type))
    force_setattr(condition, "status", intern(condition.status))
    force_setattr(condition, "reason", intern(condition.reason))


@cache
def _shareable(kind: type[Struct]) -> tuple[tuple[str, ...], Callable[[Struct], tuple[Any, ...]]]:
    """The fields that are worth comparing, and a function that reads them all at once."""
    names = tuple(f.name for f in fields(kind) if f.type not in _NUMBERS and f.name not in _OWN_NAMES)
    if len(names) > 1:
        return names, attrgetter(*names)
    # attrgetter returns a bare value for one name and raises for none.
    return names, lambda struct: tuple(getattr(struct, name) for name in names)
