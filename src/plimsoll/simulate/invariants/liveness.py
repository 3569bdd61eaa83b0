"""L1 and L2: when nothing else changes, every replica becomes ready and the operator stops writing. L3: it does not move pods in
circles."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, annotations_of, at, condition_true, uid_of
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.simulate.invariants.observed import display_name, replicas_of
from plimsoll.simulate.invariants.request import OperatorRequest
from plimsoll.simulate.invariants.rule import Invariant

# One move per pod is enough; some pods move again because another pod took the place meanwhile.
_ROUNDS = 3
_SPARE = 3


class LivenessInvariants(Invariant):
    watched_kinds = (
        kinds.NODES.storage_key,
        kinds.DEPLOYMENTS.storage_key,
        kinds.STATEFULSETS.storage_key,
        kinds.BUDGETS.storage_key,
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.last_write: datetime | None = None
        self.last_event: datetime | None = None  # the last change by another writer
        self._evictions: Counter[str] = Counter()  # by workload, since the last change by another writer

    def evicted(self, pod: Json, call: OperatorRequest) -> None:  # noqa: ARG002
        workload = self.observed.workload_of(pod)
        if workload is None:
            return
        self._evictions[uid_of(workload)] += 1
        count, wanted = self._evictions[uid_of(workload)], replicas_of(workload)
        if count > _ROUNDS * wanted + _SPARE:
            self.violated(
                "L3", f"{count} evictions of {display_name(workload)} ({wanted} replicas) without any other change"
            )

    def response_sent(self, call: OperatorRequest, status: int) -> None:
        home = self.observed.config.operator.namespace
        # A request that the server always rejects counts, too: repeating it is not rest.
        counts = status < 300 or status in (400, 422)
        if call.writes and counts and call.namespace != home and call.plural not in ("events", "leases"):
            self.last_write = self.now

    def changed(self, change: ObjectChange, call: OperatorRequest | None) -> None:
        if call is not None or not _affects_placement(change):
            return
        self.last_event = self.now
        if change.collection in (kinds.NODES.storage_key, kinds.BUDGETS.storage_key):
            self._evictions.clear()
        else:
            self._evictions.pop(uid_of(change.object), None)

    def must_be_at_rest(self, seconds: float) -> None:
        """Check after a quiet period: the operator has written nothing for `seconds` and every replica is ready."""
        if self.last_write is not None and (self.now - self.last_write).total_seconds() < seconds:
            self.violated("L2", f"nothing changed, but the operator wrote at {self.last_write:%H:%M:%S}")
        for workload in self.observed.workloads():
            if missing := self.observed.missing(workload):
                self.violated(
                    "L1", f"{missing} of {replicas_of(workload)} pods of {display_name(workload)} are not ready"
                )


def _affects_placement(change: ObjectChange) -> bool:
    """Whether a change affects where pods should run."""
    before, after = change.before, change.object
    if before is None or change.type == "DELETED":
        return True
    return (
        before.get("spec") != after.get("spec")
        or annotations_of(before) != annotations_of(after)
        or condition_true(before, "Ready") != condition_true(after, "Ready")
        or at(before, "metadata", "labels") != at(after, "metadata", "labels")
    )
