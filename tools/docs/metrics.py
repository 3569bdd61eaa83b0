"""`docs/metrics.md`, from what the operator registers and the catalogue of what decisions measure."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics import MetricWrapperBase

from plimsoll.runtime.metric_catalogue import CATALOGUE
from plimsoll.runtime.metrics import Metrics

INTRODUCTION = """\
<!-- Generated from src/plimsoll/runtime/metrics.py and metric_catalogue.py by `make docs`; edit those, not this page. -->
# Metrics

Every replica serves metrics in the Prometheus text format at `/metrics` on the port `web.port`. In the chart,
`serviceMonitor.enabled` adds a ServiceMonitor and `prometheusRule.enabled` adds alerts. The series of an object are
removed when the object is deleted.

Histograms have the usual three series: `_bucket`, `_sum` and `_count`.

"""
FAMILIES = {
    "plimsoll_": "The operator itself",
    "spotalis_": "Placement and the webhook, under the names of Spotalis",
    "plimsoll_placement_": "Placement, additional metrics",
    "plimsoll_admission_": "The webhook, additional metrics",
    "plimsoll_deletion_cost_": "Deletion cost",
    "vpsie_autoscaler_": "Node groups, under the names of the VPSie autoscaler",
    "plimsoll_allocation_": "Allocation",
}


def metrics_page() -> str:
    rows: dict[str, list[str]] = {prefix: [] for prefix in FAMILIES}
    for name, kind, labels, text in sorted({*_registered(), *_declared()}):
        family = max((prefix for prefix in FAMILIES if name.startswith(prefix)), key=len)
        told = ", ".join(f"`{label}`" for label in labels) or "–"
        rows[family].append(f"| `{name}` | {kind} | {told} | {text} |")
    return INTRODUCTION + "\n".join(
        f"## {title}\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n" + "\n".join(rows[prefix]) + "\n"
        for prefix, title in FAMILIES.items()
    )


def _registered() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    for metric in vars(Metrics()).values():
        if isinstance(metric, MetricWrapperBase):
            (family,) = metric.describe()
            name = family.name + ("_total" if family.type == "counter" else "")
            yield name, family.type, tuple(metric._labelnames), family.documentation  # noqa: SLF001


def _declared() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    for name, metric in CATALOGUE.items():
        yield name, metric.type.value, metric.labels, metric.text
