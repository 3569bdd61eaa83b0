"""ServiceMonitor and PrometheusRule for the Prometheus operator."""

from __future__ import annotations

from typing import Any, NamedTuple

from plimsoll.manifests.objects import LABELS, NAME, Manifest, new_manifest

_GROUP = "monitoring.coreos.com/v1"


def monitoring(namespace: str) -> list[Manifest]:
    endpoint = {"port": "metrics", "path": "/metrics", "interval": "30s"}
    spec = {"selector": {"matchLabels": LABELS}, "endpoints": [endpoint]}
    return [
        new_manifest(_GROUP, "ServiceMonitor", namespace, spec=spec),
        new_manifest(_GROUP, "PrometheusRule", namespace, spec={"groups": [{"name": NAME, "rules": alert_rules()}]}),
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
        "Plimsoll has no leader",
        "No decisions are made. Check the operator's pods and its Lease.",
    ),
    Alert(
        "PlimsollSeveralLeaders", "sum by (namespace) (plimsoll_leading) > 1", "1m", "critical",
        "Several Plimsoll processes act as leader",
        "Clocks run at different rates, or somebody edits the Lease. Stop the process that does not hold it.",
    ),
    Alert(
        "PlimsollViewStale", "max by (resource) (1 - plimsoll_view_synced) == 1", "5m", "warning",
        "Plimsoll's cache of {{ $labels.resource }} is stale",
        "Decisions that need this kind are paused. Check the operator's log for the kind, and the API server.",
    ),
    Alert(
        "PlimsollReconcilesFail", "sum by (controller) (rate(plimsoll_reconcile_errors_total[10m])) > 0.1", "15m",
        "warning", "The controller {{ $labels.controller }} keeps failing",
        "The log has each error with its key. Failed keys are retried with back-off.",
    ),
    Alert(
        "PlimsollInputInvalid", "sum by (controller, code) (increase(plimsoll_problems_total[1h])) > 0", "0m",
        "info", "The controller {{ $labels.controller }} found invalid input: {{ $labels.code }}",
        "A Warning event on the object names the field, its value and the rule.",
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
