"""When a lease was last seen to change, on this process's own clock: the rule by which a holder counts as gone.

Timestamps in a lease come from another machine's wall clock, so only the time since the record last changed counts. Leader election
and the leases of allocation both use this rule.
"""

from __future__ import annotations

from msgspec import Struct

from plimsoll.kube.types.coordination import Lease


class LeaseObservation(Struct, frozen=True):
    """The version of a lease that was observed last, and the monotonic time at which it was first seen."""

    uid: str
    resource_version: str
    at: float

    def expired(self, lease: Lease, now: float, default_seconds: float = 0.0) -> bool:
        """Whether the lease has no holder, or its holder has not renewed it within its duration."""
        seconds = lease.spec.lease_duration_seconds or default_seconds
        return not lease.spec.holder_identity or now >= self.at + seconds


def observe_lease(lease: Lease, known: LeaseObservation | None, now: float) -> LeaseObservation:
    """The observation after a read: `known` if the lease has not changed since."""
    meta = lease.metadata
    if known is not None and (known.uid, known.resource_version) == (meta.uid, meta.resource_version):
        return known
    return LeaseObservation(meta.uid, meta.resource_version, now)
