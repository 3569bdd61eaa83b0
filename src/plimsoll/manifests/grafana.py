"""The Grafana dashboard: operator health first, then one section per controller.

The sidecar of the Grafana chart finds the ConfigMap by its label; without the sidecar, import the JSON by hand.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from plimsoll.manifests.objects import NAME, Manifest, new_manifest

FILE = f"{NAME}.json"
FOUND_BY = {"grafana_dashboard": "1"}
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_ROW_WIDTH, _HEIGHT = 24, 8


class Line(NamedTuple):
    expression: str
    legend: str


class Panel(NamedTuple):
    title: str
    what_it_means: str
    lines: tuple[Line, ...]
    kind: Literal["timeseries", "stat"] = "timeseries"
    unit: str = "short"
    width: int = 12


def _seconds(histogram: str, by: str) -> tuple[Line, ...]:
    return tuple(
        Line(f"histogram_quantile({share}, sum by (le, {by}) (rate({histogram}_bucket[5m])))", f"{{{{{by}}}}} {name}")
        for share, name in ((0.5, "median"), (0.99, "99 %"))
    )


def _rate(counter: str, *by: str) -> tuple[Line, ...]:
    return (Line(f"sum by ({', '.join(by)}) (rate({counter}[5m]))", " ".join(f"{{{{{label}}}}}" for label in by)),)


def _now(gauge: str, *by: str) -> tuple[Line, ...]:
    return (Line(f"sum by ({', '.join(by)}) ({gauge})", " ".join(f"{{{{{label}}}}}" for label in by)),)


SECTIONS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "The operator",
        (
            Panel("Leaders", "Exactly one per installation.",
                  (Line("sum by (namespace) (plimsoll_leading)", "{{namespace}}"),), "stat", width=4),
            Panel("Synced caches", "1 per kind; 0 stops decisions that need the kind.",
                  (Line("min by (resource) (plimsoll_view_synced)", "{{resource}}"),), "stat", width=8),
            Panel("Cached objects", "Objects that decisions are based on.", _now("plimsoll_view_objects", "resource")),
            Panel("Decisions", "By reason.", _rate("plimsoll_decisions_total", "controller", "reason")),
            Panel("Actions", "Writes of the actuator, by result.",
                  _rate("plimsoll_actions_total", "controller", "action", "result")),
            Panel("Blocked keys", "Keys whose next step is blocked, by blocker code.",
                  _now("plimsoll_blocked", "controller", "code")),
            Panel("Failures and invalid input", "Failed reconciles, and invalid annotations or specs.",
                  (*_rate("plimsoll_reconcile_errors_total", "controller", "error"),
                   *_rate("plimsoll_problems_total", "controller", "code"))),
            Panel("Reconcile duration", "Per key.",
                  _seconds("plimsoll_reconcile_seconds", "controller"), unit="s"),
            Panel("Queue depth", "Keys that wait to be reconciled.", _now("plimsoll_queue_depth", "controller")),
            Panel("API requests", "By verb and status code.", _rate("plimsoll_api_requests_total", "verb", "code")),
            Panel("Cache age", "Time since the last message of the watch, by kind.",
                  (Line("max by (resource) (plimsoll_view_age_seconds)", "{{resource}}"),), unit="s"),
        ),
    ),
    (
        "Placement",
        (
            Panel("Replicas by class", "Current replicas.",
                  _now("spotalis_workload_replicas", "namespace", "workload", "replica_type")),
            Panel("Target replicas", "Replicas that the policy asks for.",
                  _now("plimsoll_placement_target_replicas", "namespace", "workload", "replica_type")),
            Panel("Admission requests", "By result.", _rate("spotalis_webhook_requests_total", "result")),
            Panel("Moves blocked by a PDB", "By PodDisruptionBudget.",
                  _rate("spotalis_rebalancing_blocked_by_pdb_total", "namespace", "workload", "pdb_name")),
        ),
    ),
    (
        "Deletion cost",
        (
            Panel("Imbalance", "Extra zone skew that the deletion order would cause; 0 is the goal.",
                  _now("plimsoll_deletion_cost_imbalance", "namespace", "workload")),
            Panel("Pods with a deletion cost", "Pods whose cost Plimsoll wrote.",
                  _now("plimsoll_deletion_cost_covered_pods", "namespace", "workload")),
        ),
    ),
    (
        "Node groups",
        (
            Panel("Nodes", "Ready and desired.",
                  (Line("sum by (namespace, nodegroup) (vpsie_autoscaler_nodegroup_ready_nodes)", "{{nodegroup}} ready"),
                   Line("sum by (namespace, nodegroup) (vpsie_autoscaler_nodegroup_desired_nodes)", "{{nodegroup}} desired"))),
            Panel("Scale-up and scale-down", "Nodes added and removed.",
                  (*_rate("vpsie_autoscaler_scale_up_total", "nodegroup"), *_rate("vpsie_autoscaler_scale_down_total", "nodegroup"))),
            Panel("Blocked scale-down", "By reason.", _rate("vpsie_autoscaler_scale_down_blocked_total", "nodegroup", "reason")),
            Panel("Node provisioning time", "From the order until the node is ready.",
                  _seconds("vpsie_autoscaler_node_provisioning_duration_seconds", "nodegroup"), unit="s"),
        ),
    ),
    (
        "Allocation",
        (
            Panel("Free drives", "By node.", _now("plimsoll_allocation_drives_free", "node")),
            Panel("Proposals", "Above 0 for more than 30 s: no session serves the node.",
                  _now("plimsoll_allocation_proposals", "node")),
        ),
    ),
)  # fmt: skip


def dashboard() -> dict[str, Any]:
    panels: list[dict[str, Any]] = []
    top = 0
    for title, section in SECTIONS:
        panels.append(
            {**_placed(len(panels), 0, top, _ROW_WIDTH, 1), "type": "row", "title": title, "collapsed": False}
        )
        top += 1
        left = 0
        for panel in section:
            if left + panel.width > _ROW_WIDTH:
                left, top = 0, top + _HEIGHT
            panels.append({**_placed(len(panels), left, top, panel.width, _HEIGHT), **_drawn(panel)})
            left += panel.width
        top += _HEIGHT
    source = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return {
        "uid": NAME,
        "title": "Plimsoll",
        "description": "Cluster capacity: targets, current state, actions and blockers.",
        "tags": [NAME],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source]},
        "panels": panels,
    }


def expressions() -> Sequence[str]:
    return [line.expression for _, section in SECTIONS for panel in section for line in panel.lines]


def grafana_dashboard(namespace: str) -> Manifest:
    made = new_manifest("v1", "ConfigMap", namespace, f"{NAME}-grafana", data={FILE: dashboard_text()})
    made["metadata"]["labels"] = {**made["metadata"]["labels"], **FOUND_BY}
    return made


def dashboard_text() -> str:
    return json.dumps(dashboard(), indent=1) + "\n"


def _placed(number: int, left: int, top: int, width: int, height: int) -> dict[str, Any]:
    return {"id": number + 1, "gridPos": {"x": left, "y": top, "w": width, "h": height}}


def _drawn(panel: Panel) -> dict[str, Any]:
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.what_it_means,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": line.expression,
                "legendFormat": line.legend,
            }
            for number, line in enumerate(panel.lines)
        ],
    }
