"""In which order a ReplicaSet gives up its pods, as kube-controller-manager 1.36 sorts them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cmp_to_key

from plimsoll.sim.api.documents import Json, annotations_of, at, uid_of
from plimsoll.sim.api.moments import parsed
from plimsoll.sim.controllers.pods import active, ready, ready_since

COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_MOST = 2**31


def deletion_order(pods: Sequence[Json], related: Iterable[Json], now: datetime) -> list[Json]:
    """The first to be deleted first. `related`: the active pods of every ReplicaSet with the same owner."""
    on_node = Counter(at(pod, "spec", "nodeName", default="") for pod in related if active(pod))

    def compare(one: Json, other: Json) -> int:
        return _compare(one, other, on_node, now)

    return sorted(pods, key=cmp_to_key(compare))


def cost_of(pod: Json) -> int:
    text = annotations_of(pod).get(COST, "")
    digits = text.removeprefix("-")
    # As Go reads it: no plus sign, no leading zeros, 32 bits. Whatever is not valid counts as nothing.
    if not digits.isdecimal() or (len(digits) > 1 and digits.startswith("0")) or text == "-0":
        return 0
    value = int(text)
    return value if -_MOST <= value < _MOST else 0


def _compare(one: Json, other: Json, on_node: Counter[str], now: datetime) -> int:
    nodes = at(one, "spec", "nodeName", default=""), at(other, "spec", "nodeName", default="")
    if bool(nodes[0]) != bool(nodes[1]):
        return -1 if not nodes[0] else 1
    phases = [_PHASES.get(at(pod, "status", "phase", default=""), 0) for pod in (one, other)]
    if phases[0] != phases[1]:
        return phases[0] - phases[1]
    if ready(one) != ready(other):
        return 1 if ready(one) else -1
    if cost_of(one) != cost_of(other):
        return cost_of(one) - cost_of(other)
    if on_node[nodes[0]] != on_node[nodes[1]]:
        return on_node[nodes[1]] - on_node[nodes[0]]
    if ready(one):
        since = ready_since(one), ready_since(other)
        if since[0] != since[1]:
            return _younger(since[0], since[1], one, other, now=now)
    if _restarts(one) != _restarts(other):
        return _restarts(other) - _restarts(one)
    made = parsed(one["metadata"]["creationTimestamp"]), parsed(other["metadata"]["creationTimestamp"])
    return _younger(made[0], made[1], one, other, now=now) if made[0] != made[1] else 0


def _younger(first: datetime | None, second: datetime | None, one: Json, other: Json, *, now: datetime) -> int:
    """By the power of two of the ages; within one power, which of the two goes is as good as chance, and the same each time."""
    if first is None or second is None:
        return -1 if first is None else 1
    difference = _power(now, first) - _power(now, second)
    if difference:
        return difference
    return -1 if uid_of(one) < uid_of(other) else 1


def _power(now: datetime, moment: datetime) -> int:
    nanoseconds = (now - moment).total_seconds() * 1e9
    return int(math.log2(nanoseconds)) if nanoseconds > 0 else -1


def _restarts(pod: Json) -> int:
    return max((one.get("restartCount", 0) for one in at(pod, "status", "containerStatuses", default=[])), default=0)
