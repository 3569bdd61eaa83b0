"""L1 and L2: where nothing else happens, the operator comes to rest and writes nothing more. L3: it moves nobody in circles."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, annotations_of, at, holds, uid_of
from plimsoll.embedded_cluster.api.storage import Change
from plimsoll.simulate.invariants.observed import replicas_of, title
from plimsoll.simulate.invariants.request import Call
from plimsoll.simulate.invariants.rule import Rule

# To change every pod once is enough; some are moved again because the place they were given was taken meanwhile.
_ROUNDS = 3
_SPARE = 3


class Liveness(Rule):
    sees = (
        kinds.NODES.storage_key,
        kinds.DEPLOYMENTS.storage_key,
        kinds.STATEFULSETS.storage_key,
        kinds.BUDGETS.storage_key,
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.last_write: datetime | None = None
        self.last_event: datetime | None = None  # that someone else caused
        self._evictions: Counter[str] = Counter()  # by workload, since something else changed

    def evicted(self, pod: Json, call: Call) -> None:  # noqa: ARG002
        workload = self.sight.workload_of(pod)
        if workload is None:
            return
        self._evictions[uid_of(workload)] += 1
        count, wanted = self._evictions[uid_of(workload)], replicas_of(workload)
        if count > _ROUNDS * wanted + _SPARE:
            self.broken(
                "L3", f"{count} evictions of {title(workload)}, which has {wanted} pods, and nothing else changed"
            )

    def answered(self, call: Call, status: int) -> None:
        home = self.sight.config.operator.namespace
        # What the server will never take is no rest either, if it is asked again and again.
        taken = status < 300 or status in (400, 422)
        if call.writes and taken and call.namespace != home and call.plural not in ("events", "leases"):
            self.last_write = self.now

    def changed(self, change: Change, call: Call | None) -> None:
        if call is not None or not _is_news(change):
            return
        self.last_event = self.now
        if change.collection in (kinds.NODES.storage_key, kinds.BUDGETS.storage_key):
            self._evictions.clear()
        else:
            self._evictions.pop(uid_of(change.object), None)

    def must_be_at_rest(self, seconds: float) -> None:
        """Said by whoever has let things be for long enough: is it quiet for so long, and is everyone there?"""
        if self.last_write is not None and (self.now - self.last_write).total_seconds() < seconds:
            self.broken("L2", f"nothing happened, and yet the operator wrote something at {self.last_write:%H:%M:%S}")
        for workload in self.sight.workloads():
            if missing := self.sight.missing(workload):
                self.broken("L1", f"{missing} of {replicas_of(workload)} pods of {title(workload)} are still missing")


def _is_news(change: Change) -> bool:
    """Whether anything is another that decides where pods should be."""
    before, after = change.before, change.object
    if before is None or change.type == "DELETED":
        return True
    return (
        before.get("spec") != after.get("spec")
        or annotations_of(before) != annotations_of(after)
        or holds(before, "Ready") != holds(after, "Ready")
        or at(before, "metadata", "labels") != at(after, "metadata", "labels")
    )
