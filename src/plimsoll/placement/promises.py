"""Places that replacements will take which nobody sees yet: their move was decided, and they have not been created.

Between a decision and the moment at which the view shows what came of it, other workloads are decided about, and each would
count on the same free place. This is all that the controller remembers by itself; without it a decision is only less careful.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct

from plimsoll.kube.resources import PODS, Key
from plimsoll.kube.store import View
from plimsoll.kube.types import Pod
from plimsoll.placement.counting import active, pods_of
from plimsoll.placement.workload import workload_at

# An eviction that was neither sent nor refused by then is late beyond what is worth to hold a place for.
SENT_WITHIN = timedelta(seconds=30)


class _Promise(Struct, frozen=True):
    leaving: Pod  # that was asked to leave
    uid: str  # of the stand-in for its replacement
    at: datetime


class Promises:
    """Which stand-ins count, by their UIDs. Whoever asks keeps them where they stand, and takes away those that ended."""

    def __init__(self) -> None:
        self._made: dict[Key, tuple[_Promise, ...]] = {}

    def make(self, key: Key, stand_ins: Iterable[tuple[Pod, str]], now: datetime) -> None:
        """Each is the pod that is asked to leave, and the UID of the stand-in for the one that will come."""
        made = (_Promise(pod, uid, now) for pod, uid in stand_ins)
        self._made[key] = (*self._made.get(key, ()), *made)

    def renewed(self, key: Key, view: View) -> list[str]:
        """What ends as the workload is decided about anew: whoever is still there was not asked to leave, and is judged again."""
        return self._end(key, [promise for promise in self._made.get(key, ()) if _is_there(promise.leaving, view)])

    def ended(self, view: View, now: datetime) -> list[str]:
        """What ends because the replacement has come, or because nothing came of the move."""
        found: list[str] = []
        for key, promises in list(self._made.items()):
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
            else:
                del self._made[key]
        return [promise.uid for promise in over]


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
