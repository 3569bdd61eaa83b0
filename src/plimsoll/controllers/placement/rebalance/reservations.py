"""Places that replacements will take which nobody sees yet: their move was decided, and they have not been created.

Between a decision and the moment at which the view shows what came of it, other workloads are decided about, and each would
count on the same free place. This is all that the controller remembers by itself; without it a decision is only less careful.

A thousand moves may be promised at once, and the question which of them have ended comes before each decision. So it is asked
only of workloads that the view's stores said something about since the last time, and of promises whose time is up.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

from msgspec import Struct

from plimsoll.controllers.placement.replica_counts import active, pods_of
from plimsoll.controllers.placement.workload import workload_at
from plimsoll.kube.cache.store import Name, Store, View
from plimsoll.kube.types.core import KubeObject, Pod
from plimsoll.kube.types.resources import DEPLOYMENTS, PODS, REPLICASETS, STATEFULSETS, Key, Resource

# An eviction that was neither sent nor refused by then is late beyond what is worth to hold a place for.
SENT_WITHIN = timedelta(seconds=30)

# Whose changes may end a promise: the workload's, its pods', and those of what stands between the two.
_FOLLOWED: tuple[Resource[Any], ...] = (DEPLOYMENTS, STATEFULSETS, REPLICASETS, PODS)


class _Promise(Struct, frozen=True):
    leaving: Pod  # that was asked to leave
    uid: str  # of the stand-in for its replacement
    at: datetime


class Promises:
    """Which stand-ins count, by their UIDs. Whoever asks keeps them where they stand, and takes away those that ended."""

    def __init__(self) -> None:
        self._made: dict[Key, tuple[_Promise, ...]] = {}
        self._leaving: dict[Name, Key] = {}  # the pods that were asked to leave
        self._due: list[tuple[datetime, Key]] = []  # in order: when a promise is over that nothing came of
        # Workloads with promises of which something has changed, or whose promises have.
        self._changed: set[Key] = set()
        self._stores: dict[Resource[Any], Store[Any]] = {}

    def make(self, key: Key, stand_ins: Iterable[tuple[Pod, str]], now: datetime) -> None:
        """Each is the pod that is asked to leave, and the UID of the stand-in for the one that will come."""
        made = [_Promise(pod, uid, now) for pod, uid in stand_ins]
        self._made[key] = (*self._made.get(key, ()), *made)
        self._leaving.update((_name(promise.leaving), key) for promise in made)
        self._changed.add(key)
        due = (now + SENT_WITHIN, key)
        at = bisect_left(self._due, due)
        if self._due[at : at + 1] != [due]:
            self._due.insert(at, due)

    def renewed(self, key: Key, view: View) -> list[str]:
        """What ends as the workload is decided about anew: whoever is still there was not asked to leave, and is judged again."""
        return self._end(key, [promise for promise in self._made.get(key, ()) if _is_there(promise.leaving, view)])

    def ended(self, view: View, now: datetime) -> list[str]:
        """What ends because the replacement has come, or because nothing came of the move."""
        self._follow(view)
        asked, self._changed = self._changed, set()
        up = bisect_right(self._due, now, key=itemgetter(0))
        asked.update(key for _, key in self._due[:up])
        del self._due[:up]
        found: list[str] = []
        for key in sorted(asked):
            promises = self._made.get(key, ())
            there = [promise for promise in promises if _is_there(promise.leaving, view)]
            over = [promise for promise in there if now >= promise.at + SENT_WITHIN]
            if len(there) < len(promises):
                over += _replaced(key, [promise for promise in promises if promise not in over], view)
            found += self._end(key, over)
        return found

    def _end(self, key: Key, over: list[_Promise]) -> list[str]:
        if over:
            left = tuple(promise for promise in self._made[key] if promise not in over)
            if left:
                self._made[key] = left
                self._changed.add(key)
            else:
                del self._made[key]
            for promise in over:
                self._leaving.pop(_name(promise.leaving), None)
        return [promise.uid for promise in over]

    # ── what has changed ─────────────────────────────────────────────────────────────────────────────────────────────

    def _follow(self, view: View) -> None:
        """A store that is met for the first time, as of another view, may tell of anybody something else than the last one."""
        for resource in _FOLLOWED:
            store = view[resource]
            if self._stores.get(resource) is not store:
                self._stores[resource] = store
                store.listen(self._note)
                self._changed.update(self._made)

    def _note(self, _: Resource[Any], before: KubeObject | None, after: KubeObject | None) -> None:
        if not self._made:
            return
        for obj in (before, after):
            if obj is not None:
                self._changed.update(key for key in self._concerned(obj) if key in self._made)

    def _concerned(self, obj: KubeObject) -> Iterable[Key]:
        """The workload itself, or the one above by the owners' names: too many do no harm."""
        namespace = obj.metadata.namespace
        yield Key(type(obj).__name__, namespace, obj.metadata.name)
        if isinstance(obj, Pod) and (key := self._leaving.get(_name(obj))) is not None:
            yield key
        owner = obj.metadata.controller
        if owner is not None and owner.kind == "ReplicaSet":
            replica_set = self._stores[REPLICASETS].get(namespace, owner.name)
            owner = replica_set.metadata.controller if replica_set is not None else None
        if owner is not None:
            yield Key(owner.kind, namespace, owner.name)


def _name(pod: Pod) -> Name:
    return pod.metadata.namespace, pod.metadata.name


def _is_there(pod: Pod, view: View) -> bool:
    found = view[PODS].get(pod.metadata.namespace, pod.metadata.name)
    return found is not None and found.metadata.uid == pod.metadata.uid and active(found)


def _replaced(key: Key, promises: list[_Promise], view: View) -> list[_Promise]:
    """Those whose replacement has come: whoever was asked to leave first is replaced first."""
    workload = workload_at(key, view)
    if workload is None:
        return promises
    leaving = {promise.leaving.uid for promise in promises}
    staying = sum(1 for pod in pods_of(workload, view) if active(pod) and pod.uid not in leaving)
    lacking = max(0, workload.spec.replicas - staying)
    return promises[: max(0, len(promises) - lacking)]
