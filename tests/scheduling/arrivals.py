"""Pods made in some order and left to kube-scheduler, which knows nothing of any plan."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

from tests.scheduling.real import RealScheduler

Manifests: TypeAlias = list[dict[str, Any]]
Order: TypeAlias = Callable[[Manifests, int], Manifests]  # by a seed

# So long without a single pod bound, while all that wait have been refused, means that nothing more will happen:
# kube-scheduler tries a pod again when something changes, after ten seconds at most.
_STANDSTILL_SECONDS = 30.0


def mixed(manifests: Manifests, seed: int) -> Manifests:
    """As owners make their pods side by side."""
    return Random(seed).sample(manifests, len(manifests))


def as_they_are(manifests: Manifests, _: int) -> Manifests:
    """Kind after kind, and last those that need a node each: the hardest order, for all others fill the nodes before them."""
    return manifests


def left_pending(real: RealScheduler, enough: int) -> Manifests:
    """The pods that are not bound once no more than `enough` are left, or once nothing moves any more."""
    left, moved = _waiting(real), time.monotonic()
    while len(left) > enough:
        now = _waiting(real)
        if len(now) != len(left) or not all(pod["status"].get("conditions") for pod in now):
            moved = time.monotonic()
        elif time.monotonic() - moved > _STANDSTILL_SECONDS:
            break
        left = now
        time.sleep(0.2)
    return left


def _waiting(real: RealScheduler) -> Manifests:
    items: Manifests = real.cluster.request("GET", "/api/v1/pods?fieldSelector=spec.nodeName=")["items"]
    return items
