"""S4: pods leave only through Eviction, within every budget, and without one, one pod of an owner at a time. S13: enough of
them stay on-demand."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, annotations_of, at, holds, labels_of, terminating, uid_of
from plimsoll.embedded_cluster.api.selectors import selector_of
from plimsoll.embedded_cluster.api.storage import Change
from plimsoll.kube.types.selectors import selects
from plimsoll.simulate.invariants.observed import replicas_of, title
from plimsoll.simulate.invariants.request import Call
from plimsoll.simulate.invariants.rule import Rule

_SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_ENABLED = "spotalis.io/enabled"
_MINIMUM = "spotalis.io/min-on-demand"


# Who raises a minimum while an eviction is on its way, or is sent again because the server was in trouble, comes too late.
_ON_ITS_WAY = timedelta(seconds=5)
# A pod that someone else sends away in the very moment in which an eviction arrives was there for whoever sent it.
_UNSEEN = timedelta(milliseconds=100)


class Evictions(Rule):
    sees = (kinds.DEPLOYMENTS.storage_key, kinds.STATEFULSETS.storage_key, kinds.PODS.storage_key)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._raised: dict[str, tuple[datetime, int]] = {}  # by UID: when, and what the minimum was before
        # When, and whose: ready pods that others sent away.
        self._left: deque[tuple[datetime, str]] = deque(maxlen=1000)

    def changed(self, change: Change, call: Call | None) -> None:
        if change.collection == kinds.PODS.storage_key:
            self._pod_changed(change, call)
        elif change.before is not None:
            before, after = _minimum_of(change.before), _minimum_of(change.object)
            if after is not None and after > (before or 0):
                self._raised[uid_of(change.object)] = (self.now, before or 0)

    def _pod_changed(self, change: Change, call: Call | None) -> None:
        before = change.before
        if call is not None or before is None or terminating(before) or not holds(before, "Ready"):
            return
        if change.type == "DELETED" or terminating(change.object):
            workload = self.sight.workload_of(change.object)
            if workload is not None:
                self._left.append((self.now, uid_of(workload)))

    def asked(self, call: Call) -> None:
        if call.method == "DELETE" and call.plural == "pods":
            self.broken("S4", f"the operator deletes a pod: {call}")

    def evicted(self, pod: Json, call: Call) -> None:
        workload = self.sight.workload_of(pod)
        if workload is None or not holds(pod, "Ready"):
            return
        others = [one for one in self.sight.ready_pods_of(workload) if uid_of(one) != uid_of(pod)]
        budgets = self.sight.budgets_of(pod)
        where, wanted = title(workload), replicas_of(workload)
        there = len(others) + self._unseen(workload)
        if not there and wanted and annotations_of(pod).get(_SAFE) != "true":
            self.broken("S4", f"the last ready pod of {where} was evicted: {call}")
        if not budgets and there < wanted - 1:
            self.broken("S4", f"{where} has no budget, and {wanted - there} of its {wanted} pods are missing")
        for budget in budgets:
            self._within(budget, pod)
        self._minimum(pod, workload, others)

    def _within(self, budget: Json, pod: Json) -> None:
        selector = selector_of(at(budget, "spec", "selector", default={}))
        pods = [
            one
            for one in self.sight.cluster.all(kinds.PODS, budget["metadata"]["namespace"])
            if selects(selector, labels_of(one))
        ]
        healthy = sum(holds(one, "Ready") and not terminating(one) and uid_of(one) != uid_of(pod) for one in pods)
        owners = {uid_of(one): one for pod in pods if (one := self.sight.workload_of(pod)) is not None}
        desired = self._desired(budget, owners)
        if healthy + sum(map(self._unseen, owners.values())) < desired:
            self.broken("S4", f"{title(budget)} wants {desired} healthy pods, and {healthy} are left")

    def _unseen(self, workload: Json) -> int:
        """Ready pods that others sent away in this very moment: not even the controller of budgets has counted them out."""
        return sum(whose == uid_of(workload) and self.now - when < _UNSEEN for when, whose in self._left)

    def _desired(self, budget: Json, owners: Mapping[str, Json]) -> int:
        expected = sum(replicas_of(owner) for owner in owners.values())
        least, most = at(budget, "spec", "minAvailable"), at(budget, "spec", "maxUnavailable")
        if least is not None:
            return _of(least, expected)
        return max(0, expected - _of(most, expected)) if most is not None else 0

    def _minimum(self, pod: Json, workload: Json, others: list[Json]) -> None:
        least = _minimum_of(workload)
        if least is None or self.sight.on_spot(pod):
            return
        if least > replicas_of(workload) or self.sight.interrupted(pod) or self.sight.sent_away_by_people(pod):
            return  # a wish that cannot be met is not followed; a pod whose node goes anyway is rescued
        raised_at, before = self._raised.get(uid_of(workload), (None, least))
        if raised_at is not None and self.now - raised_at < _ON_ITS_WAY:
            least = before
        ready = sum(not self.sight.on_spot(one) for one in others)
        if ready < least:
            self.broken("S13", f"{title(workload)} has {ready} ready on-demand pods, and {least} must stay")


def _minimum_of(workload: Json) -> int | None:
    notes = annotations_of(workload)
    text = notes.get(_MINIMUM, "")
    return int(text) if notes.get(_ENABLED) == "true" and text.isdecimal() else None


def _of(value: object, total: int) -> int:
    text = str(value)
    return math.ceil(int(text[:-1]) * total / 100) if text.endswith("%") else int(text)
