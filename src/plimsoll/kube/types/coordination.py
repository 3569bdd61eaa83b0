"""Types of the group coordination.k8s.io: Leases."""

from __future__ import annotations

from datetime import datetime

from plimsoll.kube.types.meta import KubeObject, Part


class LeaseSpec(Part, frozen=True, gc=False):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class Lease(KubeObject, frozen=True, gc=False):
    spec: LeaseSpec = LeaseSpec()
