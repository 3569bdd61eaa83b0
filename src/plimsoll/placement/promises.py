"""Places that replacements will take which nobody sees yet: their move was decided, and they have not been created.

Between a decision and the moment at which the view shows what came of it, other workloads are decided about, and each would
count on the same free place. This is all that the controller remembers by itself; without it a decision is only less careful.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.kube.resources import Key
from plimsoll.kube.store import View
from plimsoll.kube.types import Pod
from plimsoll.placement.counting import active, pods_of
from plimsoll.placement.workload import workload_at

# An eviction that was neither sent nor refused by then will not be: every call to the API server ends sooner.
SENT_WITHIN = timedelta(minutes=1)


class _Promise(Struct, frozen=True):
    leaving: str  # UID of the pod that was asked to leave
    replacement: Pod
    at: datetime


class Promises:
    def __init__(self) -> None:
        self._made: dict[Key, tuple[_Promise, ...]] = {}

    def make(self, key: Key, moves: Sequence[tuple[Pod, Pod]], now: datetime) -> None:
        """Each move is the pod that is asked to leave, and the one that will come."""
        made = tuple(_Promise(gone.uid, _another(new), now) for gone, new in moves)
        self._made[key] = (*self._made.get(key, ()), *made)

    def renew(self, key: Key, view: View) -> None:
        """The workload is decided about anew: whoever is still there was not asked to leave, and is judged again."""
        there = {pod.uid for pod in _active_pods(key, view) or ()}
        self._keep(key, tuple(promise for promise in self._made.get(key, ()) if promise.leaving not in there))

    def outstanding(self, view: View, now: datetime) -> Iterator[Pod]:
        """The replacements that have not come yet."""
        for key, promises in list(self._made.items()):
            pods = _active_pods(key, view)
            workload = workload_at(key, view)
            if pods is None or workload is None:
                self._keep(key, ())
                continue
            there = {pod.uid for pod in pods}
            kept = tuple(p for p in promises if p.leaving not in there or now < p.at + SENT_WITHIN)
            staying = len(there - {promise.leaving for promise in kept})
            lacking = max(0, workload.spec.replicas - staying)
            kept = kept[max(0, len(kept) - lacking) :]  # whoever was asked to leave first is replaced first
            self._keep(key, kept)
            yield from (promise.replacement for promise in kept)

    def _keep(self, key: Key, promises: tuple[_Promise, ...]) -> None:
        if promises:
            self._made[key] = promises
        else:
            self._made.pop(key, None)


def _active_pods(key: Key, view: View) -> list[Pod] | None:
    workload = workload_at(key, view)
    return [pod for pod in pods_of(workload, view) if active(pod)] if workload is not None else None


def _another(pod: Pod) -> Pod:
    """Under a name of its own: the pod that it replaces may still be in the picture."""
    meta = pod.metadata
    return replace(pod, metadata=replace(meta, name=f"{meta.name}-next", uid=f"{meta.uid}-next"))
