"""What Prometheus should scrape, and what it should wake someone for. Kinds of the Prometheus operator."""

from __future__ import annotations

from typing import Any, NamedTuple

from plimsoll.manifests.objects import LABELS, NAME, Manifest, described

_GROUP = "monitoring.coreos.com/v1"


def monitoring(namespace: str) -> list[Manifest]:
    endpoint = {"port": "metrics", "path": "/metrics", "interval": "30s"}
    spec = {"selector": {"matchLabels": LABELS}, "endpoints": [endpoint]}
    return [
        described(_GROUP, "ServiceMonitor", namespace, spec=spec),
        described(_GROUP, "PrometheusRule", namespace, spec={"groups": [{"name": NAME, "rules": alert_rules()}]}),
    ]


class Alert(NamedTuple):
    name: str
    expression: str
    after: str
    severity: str
    summary: str
    what_to_do: str


ALERTS = (
    Alert(
        "PlimsollLeaderMissing", "absent(plimsoll_leading) or max by (namespace) (plimsoll_leading) == 0", "5m", "critical",
        "No process of Plimsoll leads",
        "Nothing is decided. Look at the pods of the operator, and at its Lease.",
    ),
    Alert(
        "PlimsollSeveralLeaders", "sum by (namespace) (plimsoll_leading) > 1", "1m", "critical",
        "Several processes of Plimsoll believe that they lead",
        "Clocks that run at different rates, or a Lease that someone edits. End the process that is not its holder.",
    ),
    Alert(
        "PlimsollViewStale", "max by (resource) (1 - plimsoll_view_synced) == 1", "5m", "warning",
        "Plimsoll does not see {{ $labels.resource }} as they are now",
        "Nothing that rests on them is decided. Look at the operator's log for the kind, and at the API server.",
    ),
    Alert(
        "PlimsollReconcilesFail", "sum by (controller) (rate(plimsoll_reconcile_errors_total[10m])) > 0.1", "15m",
        "warning", "The controller {{ $labels.controller }} keeps failing",
        "The log has each error with its key. What failed is tried again under back-off.",
    ),
    Alert(
        "PlimsollInputInvalid", "sum by (controller, code) (increase(plimsoll_problems_total[1h])) > 0", "0m",
        "info", "Someone wrote something that {{ $labels.controller }} cannot follow: {{ $labels.code }}",
        "A Warning event on the object says which key, which value and which rule.",
    ),
)  # fmt: skip


def alert_rules() -> list[dict[str, Any]]:
    return [
        {
            "alert": alert.name,
            "expr": alert.expression,
            "for": alert.after,
            "labels": {"severity": alert.severity},
            "annotations": {"summary": alert.summary, "description": alert.what_to_do},
        }
        for alert in ALERTS
    ]
