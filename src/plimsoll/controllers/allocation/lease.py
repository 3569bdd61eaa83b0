"""The lease of a node, as the specification has it, with a nonce beside the holder's name.

The holder is named after a container, so two processes may use the same name; the nonce tells them apart. An epoch is the
resourceVersion of the write that took the lease: nobody writes to a lease that he holds, so a lease with another
version is no longer his.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct

from plimsoll.kube.codec import micro_time
from plimsoll.kube.leader_election import LeaseTimes
from plimsoll.kube.types.stored import Lease

NONCE = "plimsoll.dev/allocator-nonce"
PREFIX = "weka-allocator-"
_LONGEST_NAME = 253


def lease_name(node: str) -> str:
    name = f"{PREFIX}{node}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(node.encode()).hexdigest()[:16]
    return f"{name[: _LONGEST_NAME - 17].rstrip('.-')}-{digest}"


class Sighting(Struct, frozen=True):
    """A lease as it was last seen to change, and when that was by our own clock; times inside it are another machine's."""

    uid: str
    resource_version: str
    at: float


def sighted(lease: Lease, known: Sighting | None, at: float) -> Sighting:
    meta = lease.metadata
    if known is not None and (known.uid, known.resource_version) == (meta.uid, meta.resource_version):
        return known
    return Sighting(meta.uid, meta.resource_version, at)


def may_be_taken(lease: Lease, sighting: Sighting, *, process: str, times: LeaseTimes, at: float) -> bool:
    """Nobody holds it, its holder has let it run out, or an earlier tenure of this very process did not give it back."""
    spec = lease.spec
    if not spec.holder_identity or lease.annotations.get(NONCE, "").startswith(f"{process}/"):
        return True
    return at >= sighting.at + (spec.lease_duration_seconds or times.duration.total_seconds())


def taking(lease: Lease | None, *, identity: str, nonce: str, times: LeaseTimes, now: datetime) -> dict[str, Any]:
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


def releasing(now: datetime) -> dict[str, Any]:
    return {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(now)}}


def orphans(leases: Iterable[Lease], nodes: Iterable[str]) -> tuple[tuple[str, Lease], ...]:
    """Leases whose node is not among `nodes`, with that node's name."""
    wanted = {lease_name(node) for node in nodes}
    return tuple(
        (lease.name.removeprefix(PREFIX), lease)
        for lease in leases
        # The name of a node that is too long is not to be had from its lease; what cannot be asked for is left alone.
        if lease.name.startswith(PREFIX) and lease.name not in wanted and len(lease.name) < _LONGEST_NAME - 17
    )
