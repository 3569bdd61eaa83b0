"""S4: the operator removes pods only by Eviction, within every PodDisruptionBudget, and without a budget one pod per owner at a time.
S13: the minimum of on-demand pods stays ready."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import (
    Json,
    annotations_of,
    at,
    condition_true,
    object_labels,
    terminating,
    uid_of,
)
from plimsoll.embedded_cluster.api.storage import ObjectChange
from plimsoll.simulate.invariants.observed import display_name, replicas_of
from plimsoll.simulate.invariants.request import OperatorRequest
from plimsoll.simulate.invariants.rule import Invariant
from plimsoll.simulate.invariants.selectors import selector_matches

_SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_ENABLED = "spotalis.io/enabled"
_MINIMUM = "spotalis.io/min-on-demand"


# An eviction may be in flight, or be retried after a server error, while a user raises the minimum.
_IN_FLIGHT = timedelta(seconds=5)
# A pod that another writer deletes while an eviction arrives still counted as ready for the operator.
_UNOBSERVED = timedelta(milliseconds=100)


class EvictionInvariants(Invariant):
    watched_kinds = (kinds.DEPLOYMENTS.storage_key, kinds.STATEFULSETS.storage_key, kinds.PODS.storage_key)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._raised: dict[str, tuple[datetime, int]] = {}  # by UID: when, and what the minimum was before
        # Ready pods that other writers deleted: when, and the UID of their workload.
        self._deleted_by_others: deque[tuple[datetime, str]] = deque(maxlen=1000)

    def changed(self, change: ObjectChange, call: OperatorRequest | None) -> None:
        if change.collection == kinds.PODS.storage_key:
            self._pod_changed(change, call)
        elif change.before is not None:
            before, after = _minimum_of(change.before), _minimum_of(change.object)
            if after is not None and after > (before or 0):
                self._raised[uid_of(change.object)] = (self.now, before or 0)

    def _pod_changed(self, change: ObjectChange, call: OperatorRequest | None) -> None:
        before = change.before
        if call is not None or before is None or terminating(before) or not condition_true(before, "Ready"):
            return
        if change.type == "DELETED" or terminating(change.object):
            workload = self.observed.workload_of(change.object)
            if workload is not None:
                self._deleted_by_others.append((self.now, uid_of(workload)))

    def request_received(self, call: OperatorRequest) -> None:
        if call.method == "DELETE" and call.plural == "pods":
            self.violated("S4", f"the operator deletes a pod: {call}")

    def evicted(self, pod: Json, call: OperatorRequest) -> None:
        workload = self.observed.workload_of(pod)
        if workload is None or not condition_true(pod, "Ready"):
            return
        others = [one for one in self.observed.ready_pods_of(workload) if uid_of(one) != uid_of(pod)]
        budgets = self.observed.budgets_of(pod)
        where, wanted = display_name(workload), replicas_of(workload)
        ready = len(others) + self._just_deleted(workload)
        if not ready and wanted and annotations_of(pod).get(_SAFE) != "true":
            self.violated("S4", f"the last ready pod of {where} was evicted: {call}")
        if not budgets and ready < wanted - 1:
            self.violated(
                "S4", f"{where} has no PodDisruptionBudget, and {wanted - ready} of {wanted} pods are unavailable"
            )
        for budget in budgets:
            self._within(budget, pod)
        self._minimum(pod, workload, others)

    def _within(self, budget: Json, pod: Json) -> None:
        selector = at(budget, "spec", "selector", default={})
        pods = [
            one
            for one in self.observed.cluster.all(kinds.PODS, budget["metadata"]["namespace"])
            if selector_matches(selector, object_labels(one))
        ]
        healthy = sum(
            condition_true(one, "Ready") and not terminating(one) and uid_of(one) != uid_of(pod) for one in pods
        )
        owners = {uid_of(one): one for pod in pods if (one := self.observed.workload_of(pod)) is not None}
        desired = self._desired(budget, owners)
        if healthy + sum(map(self._just_deleted, owners.values())) < desired:
            self.violated(
                "S4", f"PodDisruptionBudget {display_name(budget)} requires {desired} healthy pods; {healthy} are left"
            )

    def _just_deleted(self, workload: Json) -> int:
        """Ready pods that other writers deleted an instant ago; the disruption controller has not subtracted them yet."""
        return sum(
            owner == uid_of(workload) and self.now - when < _UNOBSERVED for when, owner in self._deleted_by_others
        )

    def _desired(self, budget: Json, owners: Mapping[str, Json]) -> int:
        expected = sum(replicas_of(owner) for owner in owners.values())
        least, most = at(budget, "spec", "minAvailable"), at(budget, "spec", "maxUnavailable")
        if least is not None:
            return _of(least, expected)
        return max(0, expected - _of(most, expected)) if most is not None else 0

    def _minimum(self, pod: Json, workload: Json, others: list[Json]) -> None:
        least = _minimum_of(workload)
        if least is None or self.observed.on_spot(pod):
            return
        if least > replicas_of(workload) or self.observed.interrupted(pod) or self.observed.node_deleted_by_user(pod):
            return  # the minimum cannot be met, or the pod's node terminates anyway
        raised_at, before = self._raised.get(uid_of(workload), (None, least))
        if raised_at is not None and self.now - raised_at < _IN_FLIGHT:
            least = before
        ready = sum(not self.observed.on_spot(one) for one in others)
        if ready < least:
            self.violated(
                "S13", f"{display_name(workload)} keeps {ready} ready on-demand pods; min-on-demand is {least}"
            )


def _minimum_of(workload: Json) -> int | None:
    notes = annotations_of(workload)
    text = notes.get(_MINIMUM, "")
    return int(text) if notes.get(_ENABLED) == "true" and text.isdecimal() else None


def _of(value: object, total: int) -> int:
    text = str(value)
    return math.ceil(int(text[:-1]) * total / 100) if text.endswith("%") else int(text)
