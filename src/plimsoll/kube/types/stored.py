"""Objects that an operator writes: what it keeps, the lease it holds, and what it tells people."""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from plimsoll.kube.types.core import KubeObject, Labels, Part


class ConfigMap(KubeObject, frozen=True, gc=False):
    data: Labels = field(default_factory=dict)


class Secret(KubeObject, frozen=True, gc=False):
    data: Labels = field(default_factory=dict)  # in base64

    def __repr__(self) -> str:
        return f"Secret({self.namespace}/{self.name}, …)"  # any repr may end up in a log


class LeaseSpec(Part, frozen=True, gc=False):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class Lease(KubeObject, frozen=True, gc=False):
    spec: LeaseSpec = LeaseSpec()


class EventSeries(Part, frozen=True, gc=False):
    count: int
    last_observed_time: datetime


class ObjectReference(Part, frozen=True, gc=False):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Event(KubeObject, frozen=True, gc=False):
    """events.k8s.io/v1: what `kubectl describe` shows under an object."""

    event_time: datetime | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    note: str = ""
    type: str = ""
    series: EventSeries | None = None
