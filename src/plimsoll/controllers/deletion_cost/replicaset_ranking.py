"""The order in which the ReplicaSet controller deletes pods (Kubernetes 1.36).

Deletion cost is the fourth criterion: pods without a node, pods that are not running and pods that are not ready are deleted
before any pod that a value could protect. The criteria behind it change with time (ages in logarithmic buckets), so the order is
exact only at the moment; between pods of different value it is exact for as long as they stay ready.

Restarts of sidecar containers are not compared, because the view does not hold them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cmp_to_key
from itertools import groupby
from math import log2
from operator import itemgetter
from typing import NamedTuple

from plimsoll.kube.types.core import Pod
from plimsoll.kube.workloads import active

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}

Criteria = tuple[bool, int, bool, int, int]


def decided_by_cost(pod: Pod) -> bool:
    """Whether the deletion cost decides about this pod: without a node, not running or not ready it is deleted first."""
    return bool(pod.spec.node_name) and pod.status.phase == "Running" and pod.ready


def pods_on_nodes(pods: Iterable[Pod]) -> Mapping[str, int]:
    """Active pods of one Deployment by node; between equals the pod with more siblings on its node is deleted first."""
    return Counter(pod.spec.node_name for pod in pods if active(pod))


def deletion_order(
    pods: Sequence[Pod], cost: Callable[[Pod], int], pods_by_node: Mapping[str, int], now: datetime
) -> list[Pod]:
    """The active pods of one ReplicaSet in deletion order."""

    def criteria(pod: Pod) -> Criteria:
        node = pod.spec.node_name
        return (node != "", _PHASES.get(pod.status.phase, 0), pod.ready, cost(pod), -pods_by_node.get(node, 0))

    ranked = sorted(((criteria(pod), pod) for pod in pods), key=itemgetter(0))
    order: list[Pod] = []
    for _, alike in groupby(ranked, key=itemgetter(0)):
        group = [pod for _, pod in alike]
        if len(group) > 1:
            group = [history.pod for history in sorted((_history(pod, now) for pod in group), key=_by_age)]
        order += group
    return order


class _History(NamedTuple):
    """What is compared between pods that are equal in all earlier criteria."""

    pod: Pod
    uid: str
    ready_since: datetime | None
    ready_bucket: int
    restarts: int
    created: datetime | None
    created_bucket: int


def _history(pod: Pod, now: datetime) -> _History:
    since, created = pod.ready_since, pod.metadata.creation_timestamp
    restarts = max((status.restart_count for status in pod.status.container_statuses), default=0)
    return _History(pod, pod.uid, since, _age_bucket(since, now), restarts, created, _age_bucket(created, now))


def _compare(one: _History, other: _History) -> int:
    """Not transitive if only some ready times are equal; neither is the original."""
    if one.ready_since != other.ready_since:  # of equal pods, either all are ready or none is
        difference = one.ready_bucket - other.ready_bucket
    elif one.restarts != other.restarts:
        return other.restarts - one.restarts
    elif one.created != other.created:
        difference = one.created_bucket - other.created_bucket
    else:
        return 0
    return difference or (-1 if one.uid < other.uid else 1)


_by_age = cmp_to_key(_compare)


def _age_bucket(since: datetime | None, now: datetime) -> int:
    """Ages within a power of two (of nanoseconds) count as equal; no time counts as younger than any."""
    if since is None:
        return -2
    nanoseconds = (now - since) // timedelta(microseconds=1) * 1000
    return int(log2(nanoseconds)) if nanoseconds > 0 else -1
