"""Converts events between `v1`, in which they are stored, and `events.k8s.io/v1`."""

from __future__ import annotations

from plimsoll.embedded_cluster.api.json_documents import Json
from plimsoll.embedded_cluster.api.kinds import EVENTS, ResourceKind

# events.k8s.io → v1
_NAMES = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_BACK = {stored: shown for shown, stored in _NAMES.items()}


def stored_form(kind: ResourceKind, obj: Json) -> Json:
    if kind != EVENTS:
        return obj
    stored = {_NAMES.get(field, field): value for field, value in obj.items()}
    # kubectl prints these as they come; the API server keeps them null.
    filled: Json = {"source": {}, "firstTimestamp": None, "lastTimestamp": None, **stored}
    return {**filled, "apiVersion": "v1"}


def shown_form(kind: ResourceKind, obj: Json) -> Json:
    if kind != EVENTS:
        return obj
    return {**{_BACK.get(field, field): value for field, value in obj.items()}, "apiVersion": EVENTS.api_version}
