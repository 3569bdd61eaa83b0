"""The allocation lease of a node: its name, who may acquire it, and the patches that acquire and release it.

The holder identity is the name of a container, so two processes may use the same identity; a nonce in an annotation tells them
apart. The epoch of a session is the resourceVersion of the write that acquired the lease. A holder never writes to its lease
in between, so any other version means that the lease was lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from plimsoll.kube.codec import micro_time
from plimsoll.kube.leader_election import LeaseTimes
from plimsoll.kube.lease_observation import LeaseObservation
from plimsoll.kube.types.coordination import Lease

NONCE = "plimsoll.dev/allocator-nonce"
PREFIX = "weka-allocator-"
# Containers that have an allocation on the node. It survives the loss of a container's whole status.
HOLDERS = "plimsoll.dev/allocated-containers"
_MOST_HOLDERS = 5_000  # bounds the annotation to 65 KB
_LONGEST_NAME = 253


def lease_name(node: str) -> str:
    name = f"{PREFIX}{node}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(node.encode()).hexdigest()[:16]
    return f"{name[: _LONGEST_NAME - 17].rstrip('.-')}-{digest}"


def can_acquire(lease: Lease, observation: LeaseObservation, *, process: str, times: LeaseTimes, at: float) -> bool:
    """Whether the lease is free, has expired, or is left over from an earlier session of this process."""
    left_over = lease.annotations.get(NONCE, "").startswith(f"{process}/")
    return left_over or observation.expired(lease, at, times.duration.total_seconds())


def held_by(lease: Lease | None) -> str:
    """Who holds the lease and since when, for messages."""
    if lease is None or not lease.spec.holder_identity:
        return "another process"
    since = lease.spec.acquire_time
    return f"{lease.spec.holder_identity}" + (f" since {since:%Y-%m-%dT%H:%M:%SZ}" if since is not None else "")


def acquire_patch(
    lease: Lease | None, *, identity: str, nonce: str, times: LeaseTimes, now: datetime
) -> dict[str, Any]:
    stamp = micro_time(now)
    return {
        "metadata": {"annotations": {NONCE: nonce}},
        "spec": {
            "holderIdentity": identity,
            "leaseDurationSeconds": int(times.duration.total_seconds()),
            "acquireTime": stamp,
            "renewTime": stamp,
            "leaseTransitions": (lease.spec.lease_transitions or 0) + 1 if lease else 0,
        },
    }


def release_patch(now: datetime, holders: frozenset[str] | None = None) -> dict[str, Any]:
    """holders: ids of the containers with an allocation on the node; None leaves the record as it is."""
    record = (
        {} if holders is None else {"metadata": {"annotations": {HOLDERS: ",".join(sorted(holders)[:_MOST_HOLDERS])}}}
    )
    return {**record, "spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(now)}}


def holder_id(container_uid: str) -> str:
    """A short id of a container for the record on the lease."""
    return hashlib.sha256(container_uid.encode()).hexdigest()[:12]


def recorded_holders(lease: Lease) -> frozenset[str]:
    return frozenset(part for part in lease.annotations.get(HOLDERS, "").split(",") if part)


def orphans(leases: Iterable[Lease], nodes: Iterable[str]) -> tuple[tuple[str, Lease], ...]:
    """Leases whose node is not in `nodes`, with the name of that node."""
    wanted = {lease_name(node) for node in nodes}
    return tuple(
        (lease.name.removeprefix(PREFIX), lease)
        for lease in leases
        # A shortened lease name does not contain the node name, so its node cannot be looked up: keep the lease.
        if lease.name.startswith(PREFIX) and lease.name not in wanted and len(lease.name) < _LONGEST_NAME - 17
    )
