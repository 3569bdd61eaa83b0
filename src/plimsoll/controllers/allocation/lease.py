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

from msgspec import Struct

from plimsoll.kube.codec import micro_time
from plimsoll.kube.leader_election import LeaseTimes
from plimsoll.kube.types.coordination import Lease

NONCE = "plimsoll.dev/allocator-nonce"
PREFIX = "weka-allocator-"
_LONGEST_NAME = 253


def lease_name(node: str) -> str:
    name = f"{PREFIX}{node}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(node.encode()).hexdigest()[:16]
    return f"{name[: _LONGEST_NAME - 17].rstrip('.-')}-{digest}"


class LeaseObservation(Struct, frozen=True):
    """The last observed version of a lease and when it was first seen, by our clock: times in the lease are another machine's."""

    uid: str
    resource_version: str
    at: float


def observe_lease(lease: Lease, known: LeaseObservation | None, at: float) -> LeaseObservation:
    meta = lease.metadata
    if known is not None and (known.uid, known.resource_version) == (meta.uid, meta.resource_version):
        return known
    return LeaseObservation(meta.uid, meta.resource_version, at)


def can_acquire(lease: Lease, observation: LeaseObservation, *, process: str, times: LeaseTimes, at: float) -> bool:
    """Whether the lease is free, has expired, or is left over from an earlier session of this process."""
    spec = lease.spec
    if not spec.holder_identity or lease.annotations.get(NONCE, "").startswith(f"{process}/"):
        return True
    return at >= observation.at + (spec.lease_duration_seconds or times.duration.total_seconds())


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


def release_patch(now: datetime) -> dict[str, Any]:
    return {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(now)}}


def orphans(leases: Iterable[Lease], nodes: Iterable[str]) -> tuple[tuple[str, Lease], ...]:
    """Leases whose node is not in `nodes`, with the name of that node."""
    wanted = {lease_name(node) for node in nodes}
    return tuple(
        (lease.name.removeprefix(PREFIX), lease)
        for lease in leases
        # A shortened lease name does not contain the node name, so its node cannot be looked up: keep the lease.
        if lease.name.startswith(PREFIX) and lease.name not in wanted and len(lease.name) < _LONGEST_NAME - 17
    )
