"""The order in which a ReplicaSet deletes pods, as in kube-controller-manager 1.36."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cmp_to_key
from typing import NamedTuple

from plimsoll.embedded_cluster.api.json_documents import Json, annotations_of, at, uid_of
from plimsoll.embedded_cluster.api.timestamps import parse_timestamp
from plimsoll.embedded_cluster.controllers.pods import pod_is_active, pod_is_ready, ready_since

COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_MOST = 2**31


class _Candidate(NamedTuple):
    """The sort criteria of a pod."""

    pod: Json
    uid: str
    before_all: tuple[bool, int, bool, int, int]  # assigned, phase, ready, cost, fewer siblings on its node
    ready_since: datetime | None
    restarts: int
    created: datetime


def rank_for_deletion(pods: Sequence[Json], related: Iterable[Json], now: datetime) -> list[Json]:
    """The pods in deletion order. `related`: the active pods of every ReplicaSet with the same owner."""
    on_node = Counter(pod["spec"].get("nodeName", "") for pod in related if pod_is_active(pod))

    def compare(one: _Candidate, other: _Candidate) -> int:
        return _compare(one, other, now)

    return [one.pod for one in sorted((_candidate(pod, on_node) for pod in pods), key=cmp_to_key(compare))]


def _candidate(pod: Json, on_node: Counter[str]) -> _Candidate:
    node = pod["spec"].get("nodeName", "")
    phase = _PHASES.get(at(pod, "status", "phase", default=""), 0)
    return _Candidate(
        pod,
        uid_of(pod),
        (bool(node), phase, pod_is_ready(pod), cost_of(pod), -on_node[node]),
        ready_since(pod),
        max((one.get("restartCount", 0) for one in at(pod, "status", "containerStatuses", default=[])), default=0),
        parse_timestamp(pod["metadata"]["creationTimestamp"]),
    )


def cost_of(pod: Json) -> int:
    text = annotations_of(pod).get(COST, "")
    digits = text.removeprefix("-")
    # As Go parses it: no plus sign, no leading zeros, 32 bits. An invalid value counts as 0.
    if not digits.isdecimal() or (len(digits) > 1 and digits.startswith("0")) or text == "-0":
        return 0
    value = int(text)
    return value if -_MOST <= value < _MOST else 0


def _compare(one: _Candidate, other: _Candidate, now: datetime) -> int:
    if one.before_all != other.before_all:
        return -1 if one.before_all < other.before_all else 1
    if one.before_all[2] and one.ready_since != other.ready_since:
        return _younger(one, other, one.ready_since, other.ready_since, now=now)
    if one.restarts != other.restarts:
        return other.restarts - one.restarts
    return _younger(one, other, one.created, other.created, now=now) if one.created != other.created else 0


def _younger(
    one: _Candidate, other: _Candidate, first: datetime | None, second: datetime | None, *, now: datetime
) -> int:
    """Compare ages by powers of two; within one power the order is arbitrary but stable."""
    if first is None or second is None:
        return -1 if first is None else 1
    difference = _power(now, first) - _power(now, second)
    if difference:
        return difference
    return -1 if one.uid < other.uid else 1


def _power(now: datetime, moment: datetime) -> int:
    nanoseconds = (now - moment).total_seconds() * 1e9
    return int(math.log2(nanoseconds)) if nanoseconds > 0 else -1
