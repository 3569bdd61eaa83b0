"""Prometheus metrics: those of the runtime, with the prefix `plimsoll_`, and those that decisions carry, by their own names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

import prometheus_client as prometheus
from prometheus_client import CollectorRegistry, disable_created_metrics

from plimsoll.kube.types.resources import Key
from plimsoll.runtime.decision import Counter, Gauge, Histogram
from plimsoll.runtime.metric_catalogue import help_text

# A `_created` series beside every counter would double the size of a scrape, and nothing uses it.
disable_created_metrics()  # type: ignore[no-untyped-call]

# Creating a machine or draining a node takes from seconds to tens of minutes.
_MACHINE_SECONDS = (1, 2.5, 5, 10, 20, 30, 60, 90, 120, 180, 300, 600, 900, 1800)
_histogram = partial(prometheus.Histogram, buckets=_MACHINE_SECONDS)

T = TypeVar("T", prometheus.Counter, prometheus.Gauge, prometheus.Histogram)


class Metrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.decisions = self._counter("decisions", "Decisions, by reason", "controller", "reason")
        self.actions = self._counter("actions", "Actions of decisions, by result", "controller", "action", "result")
        self.problems = self._counter("problems", "Invalid input that was reported", "controller", "code")
        self.errors = self._counter("reconcile_errors", "Reconciles that failed and are retried", "controller", "error")
        self.events = self._counter("events", "Kubernetes events, by result", "result")
        self.audit_records = self._counter("audit_records", "Records of the audit trail, by result", "result")
        self.requests = self._counter("api_requests", "Requests to the API server", "verb", "resource", "code")
        self.relists = self._counter("view_relists", "Times a kind was listed again", "resource")
        self.reconcile_seconds = self._seconds("reconcile_seconds", "Duration of a reconcile", "controller")
        self.decide_seconds = self._seconds("decide_seconds", "Duration of a decision, without I/O", "controller")
        self.request_seconds = self._seconds(
            "api_request_seconds", "Latency of requests to the API server", "verb", "resource"
        )
        self.queue_depth = self._gauge("queue_depth", "Keys in the work queue", "controller")
        self.leading = self._gauge("leading", "1 while this process leads")
        self.view_age_seconds = self._gauge(
            "view_age_seconds", "Seconds since the API server last sent data about a kind", "resource"
        )
        self.view_synced = self._gauge("view_synced", "1 while the view of a kind is live", "resource")
        self.quarantined = self._gauge("quarantined_objects", "Objects of a kind that cannot be decoded", "resource")
        self.view_objects = self._gauge("view_objects", "Objects of a kind in the view", "resource")
        self.blocked = self._gauge("blocked", "Keys whose next action is blocked, by blocker", "controller", "code")
        # Names that Spotalis dashboards query.
        self.last_seen = prometheus.Gauge(
            "spotalis_controller_last_seen_timestamp", "When a controller last made a decision, in seconds since 1970",
            ("controller_name",), registry=self.registry,
        )  # fmt: skip
        self.leads = prometheus.Gauge(
            "spotalis_leader_election_status",
            "1 while this process leads",
            ("controller_name",),
            registry=self.registry,
        )
        self._measured: dict[str, prometheus.Gauge] = {}
        self._counted: dict[str, prometheus.Counter] = {}
        self._counters: dict[
            tuple[str, frozenset[tuple[str, str]]], prometheus.Counter
        ] = {}  # the same, with their labels
        self._timed: dict[str, prometheus.Histogram] = {}
        self._series: dict[tuple[str, Key], dict[tuple[str, tuple[str, ...]], prometheus.Gauge]] = {}
        self._relisted: dict[str, int] = {}
        self._blocking: dict[tuple[str, Key], tuple[str, ...]] = {}

    def publish(self, controller: str, key: Key, gauges: Iterable[Gauge]) -> None:
        """Set the gauges of a decision, and remove those that the key's previous decision had and this one has not."""
        published: dict[tuple[str, tuple[str, ...]], prometheus.Gauge] = {}
        before = self._series.pop((controller, key), {})
        for one in gauges:
            series = (one.name, tuple(one.labels.values()))
            # Looking up a labelled series locks and compares every label; most decisions set the same series as the last one.
            gauge = before.get(series) or self._series_of(one, self._measured, prometheus.Gauge)
            gauge.set(one.value)
            published[series] = gauge
        for name, values in before:
            if (name, values) not in published and values:
                self._measured[name].remove(*values)
        if published:
            self._series[controller, key] = published

    def count(self, counts: Iterable[Counter | Histogram]) -> None:
        """Apply the counter increments and histogram observations of a decision, a problem or an event."""
        for one in counts:
            if isinstance(one, Histogram):
                self._series_of(one, self._timed, _histogram).observe(one.seconds)
                continue
            series = (one.name, frozenset(one.labels.items()))
            # Looking up a labelled series locks and compares every label; the webhook does it hundreds of times per second.
            counter = self._counters.get(series)
            if counter is None:
                counter = self._counters[series] = self._series_of(one, self._counted, prometheus.Counter)
            counter.inc()

    def _series_of(self, one: Gauge | Counter | Histogram, known: dict[str, T], make: Callable[..., T]) -> T:
        """The labelled series, creating the metric at its first use."""
        metric = known.get(one.name)
        if metric is None:
            metric = known[one.name] = make(one.name, help_text(one.name), tuple(one.labels), registry=self.registry)
        return metric.labels(**one.labels) if one.labels else metric

    def set_leading(self, controllers: Iterable[str], *, leading: bool) -> None:
        self.leading.set(leading)
        for name in controllers:
            self.leads.labels(name).set(leading)

    def publish_relists(self, resource: str, total: int) -> None:
        """Raise the counter to a reflector's own total."""
        counted = self._relisted.get(resource, 0)
        if total > counted:
            self.relists.labels(resource).inc(total - counted)
            self._relisted[resource] = total

    def publish_blockers(self, controller: str, key: Key, codes: Iterable[str]) -> None:
        now = tuple(sorted(set(codes)))
        before = self._blocking.pop((controller, key), ())
        if now:
            self._blocking[controller, key] = now
        for code in before:
            self.blocked.labels(controller, code).dec()
        for code in now:
            self.blocked.labels(controller, code).inc()

    def _counter(self, name: str, text: str, *labels: str) -> prometheus.Counter:
        return prometheus.Counter(f"plimsoll_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> prometheus.Gauge:
        return prometheus.Gauge(f"plimsoll_{name}", text, labels, registry=self.registry)

    def _seconds(self, name: str, text: str, *labels: str) -> prometheus.Histogram:
        steps = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
        return prometheus.Histogram(f"plimsoll_{name}", text, labels, registry=self.registry, buckets=steps)
