"""Types of the group events.k8s.io: Events as the API server stores them."""

from __future__ import annotations

from datetime import datetime

from plimsoll.kube.types.meta import KubeObject, Part


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
