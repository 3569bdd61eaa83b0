"""Reservations: capacity for replacements of moves that are decided and whose pods do not exist yet.

Between a decision and the moment at which the view shows its effect, other workloads are decided; without reservations each
would count on the same free capacity. `CapacityCheck` keeps one `Reservations` and the placeholder pods. The state is lost on a
restart; a decision is then only less careful.

A thousand moves may be under way, and finished reservations are looked for before each decision. So only the workloads whose
objects changed since the last time, and reservations past their time limit, are examined.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

from msgspec import Struct

from plimsoll.controllers.placement.workload import workload_at
from plimsoll.kube.cache.store import Name, Store, View
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import DEPLOYMENTS, PODS, REPLICASETS, STATEFULSETS, Key, Resource
from plimsoll.kube.workloads import active, pods_of

# An eviction that was neither sent nor refused by then no longer holds capacity.
SENT_WITHIN = timedelta(seconds=30)

# Kinds whose changes may finish a reservation.
_WATCHED: tuple[Resource[Any], ...] = (DEPLOYMENTS, STATEFULSETS, REPLICASETS, PODS)


class _Reservation(Struct, frozen=True):
    evicted: Pod
    uid: str  # of the placeholder for its replacement
    at: datetime


class Reservations:
    """The placeholders in force, by UID. The caller adds the placeholder pods and removes those that are released."""

    def __init__(self) -> None:
        self._made: dict[Key, tuple[_Reservation, ...]] = {}
        self._evicted: dict[Name, Key] = {}  # evicted pods
        self._due: list[tuple[datetime, Key]] = []  # sorted: when a reservation without an eviction expires
        # Workloads with reservations whose objects or reservations have changed.
        self._changed: set[Key] = set()
        self._stores: dict[Resource[Any], Store[Any]] = {}

    def add(self, key: Key, placeholders: Iterable[tuple[Pod, str]], now: datetime) -> None:
        """Each placeholder is the pod to be evicted and the UID of the placeholder for its replacement."""
        made = [_Reservation(pod, uid, now) for pod, uid in placeholders]
        self._made[key] = (*self._made.get(key, ()), *made)
        self._evicted.update((_name(reservation.evicted), key) for reservation in made)
        self._changed.add(key)
        due = (now + SENT_WITHIN, key)
        at = bisect_left(self._due, due)
        if self._due[at : at + 1] != [due]:
            self._due.insert(at, due)

    def release_undone(self, key: Key, view: View) -> list[str]:
        """Release, before a new decision about the workload, the reservations whose pod was not evicted."""
        return self._end(
            key, [reservation for reservation in self._made.get(key, ()) if _still_active(reservation.evicted, view)]
        )

    def release_finished(self, view: View, now: datetime) -> list[str]:
        """Release the reservations whose replacement exists, and those whose eviction did not happen in time."""
        self._follow(view)
        examined, self._changed = self._changed, set()
        up = bisect_right(self._due, now, key=itemgetter(0))
        examined.update(key for _, key in self._due[:up])
        del self._due[:up]
        found: list[str] = []
        for key in sorted(examined):
            reservations = self._made.get(key, ())
            there = [reservation for reservation in reservations if _still_active(reservation.evicted, view)]
            over = [reservation for reservation in there if now >= reservation.at + SENT_WITHIN]
            if len(there) < len(reservations):
                over += _replaced(key, [reservation for reservation in reservations if reservation not in over], view)
            found += self._end(key, over)
        return found

    def _end(self, key: Key, over: list[_Reservation]) -> list[str]:
        if over:
            left = tuple(reservation for reservation in self._made[key] if reservation not in over)
            if left:
                self._made[key] = left
                self._changed.add(key)
            else:
                del self._made[key]
            for reservation in over:
                self._evicted.pop(_name(reservation.evicted), None)
        return [reservation.uid for reservation in over]

    # ── what has changed ─────────────────────────────────────────────────────────────────────────────────────────────

    def _follow(self, view: View) -> None:
        """Listen to the view's stores. A store that is new may show something else about every workload."""
        for resource in _WATCHED:
            store = view[resource]
            if self._stores.get(resource) is not store:
                self._stores[resource] = store
                store.listen(self._object_changed)
                self._changed.update(self._made)

    def _object_changed(self, _: Resource[Any], before: KubeObject | None, after: KubeObject | None) -> None:
        if not self._made:
            return
        for obj in (before, after):
            if obj is not None:
                self._changed.update(key for key in self._keys_of(obj) if key in self._made)

    def _keys_of(self, obj: KubeObject) -> Iterable[Key]:
        """The workload itself, or the one above it by the owners' names. Too many do no harm."""
        namespace = obj.metadata.namespace
        yield Key(type(obj).__name__, namespace, obj.metadata.name)
        if isinstance(obj, Pod) and (key := self._evicted.get(_name(obj))) is not None:
            yield key
        owner = obj.metadata.controller
        if owner is not None and owner.kind == "ReplicaSet":
            replica_set = self._stores[REPLICASETS].get(namespace, owner.name)
            owner = replica_set.metadata.controller if replica_set is not None else None
        if owner is not None:
            yield Key(owner.kind, namespace, owner.name)


def _name(pod: Pod) -> Name:
    return pod.metadata.namespace, pod.metadata.name


def _still_active(pod: Pod, view: View) -> bool:
    found = view[PODS].get(pod.metadata.namespace, pod.metadata.name)
    return found is not None and found.metadata.uid == pod.metadata.uid and active(found)


def _replaced(key: Key, reservations: list[_Reservation], view: View) -> list[_Reservation]:
    """The reservations whose replacement exists: the pod that was evicted first is replaced first."""
    workload = workload_at(key, view)
    if workload is None:
        return reservations
    evicted = {reservation.evicted.uid for reservation in reservations}
    staying = sum(1 for pod in pods_of(workload, view) if active(pod) and pod.uid not in evicted)
    lacking = max(0, workload.spec.replicas - staying)
    return reservations[: max(0, len(reservations) - lacking)]
