"""The order in which the ReplicaSet controller deletes pods, as of Kubernetes 1.36.

Deletion cost is the fourth criterion: pods without a node, pods that are not running and pods that are not ready go before
any that a value could protect. Behind it come criteria that change as time passes (ages in logarithmic buckets), so an order
computed now is exact for now; between pods of different value it is exact for as long as they stay ready.

Not compared: restarts of sidecar containers, which the view does not hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cmp_to_key
from itertools import groupby
from math import log2

from plimsoll.kube.types import Pod

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}

Criteria = tuple[bool, int, bool, int, int]


def active(pod: Pod) -> bool:
    """Whether the ReplicaSet controller counts this pod at all."""
    return not pod.terminating and not pod.finished


def decided_by_cost(pod: Pod) -> bool:
    """Whether a value can keep this pod: without a node, not running or not ready it goes first, whatever it carries."""
    return bool(pod.spec.node_name) and pod.status.phase == "Running" and pod.ready


def pods_on_nodes(pods: Iterable[Pod]) -> Mapping[str, int]:
    """Active pods of one Deployment by node; of two pods alike, the one with more company goes first."""
    return Counter(pod.spec.node_name for pod in pods if active(pod))


def deletion_order(
    pods: Sequence[Pod], cost: Callable[[Pod], int], company: Mapping[str, int], now: datetime
) -> list[Pod]:
    """The active pods of one ReplicaSet, the first to be deleted first."""

    def criteria(pod: Pod) -> Criteria:
        node = pod.spec.node_name
        return (node != "", _PHASES.get(pod.status.phase, 0), pod.ready, cost(pod), -company.get(node, 0))

    ranked = sorted(((criteria(pod), pod) for pod in pods), key=lambda entry: entry[0])
    order: list[Pod] = []
    for _, alike in groupby(ranked, key=lambda entry: entry[0]):
        group = [pod for _, pod in alike]
        order += sorted(group, key=cmp_to_key(_by_age(now))) if len(group) > 1 else group
    return order


def _by_age(now: datetime) -> Callable[[Pod, Pod], int]:
    """The criteria behind the deletion cost. Not transitive where only some ready times are equal; neither is the original."""

    def compare(one: Pod, other: Pod) -> int:
        if one.ready and other.ready and one.ready_since != other.ready_since:
            return _younger_first(one, other, one.ready_since, other.ready_since, now)
        if (restarts := _restarts(other) - _restarts(one)) != 0:
            return restarts
        created, other_created = one.metadata.creation_timestamp, other.metadata.creation_timestamp
        return 0 if created == other_created else _younger_first(one, other, created, other_created, now)

    return compare


def _younger_first(one: Pod, other: Pod, since: datetime | None, other_since: datetime | None, now: datetime) -> int:
    if since is None or other_since is None:
        return -1 if since is None else 1
    difference = _age_bucket(now - since) - _age_bucket(now - other_since)
    return difference or (-1 if one.uid < other.uid else 1)


def _age_bucket(age: timedelta) -> int:
    """Ages within a power of two (of nanoseconds) count as equal."""
    nanoseconds = age // timedelta(microseconds=1) * 1000
    return int(log2(nanoseconds)) if nanoseconds > 0 else -1


def _restarts(pod: Pod) -> int:
    return max((status.restart_count for status in pod.status.container_statuses), default=0)
