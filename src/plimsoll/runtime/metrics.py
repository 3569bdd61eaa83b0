"""What the runtime counts, under one prefix; and gauges that decisions bring along, under the names they ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

import prometheus_client as prometheus
from prometheus_client import CollectorRegistry, disable_created_metrics

from plimsoll.kube.types.resources import Key
from plimsoll.runtime.decision import Counter, Gauge, Histogram
from plimsoll.runtime.metric_catalogue import text_of

# A `_created` series beside every counter would double what a scrape carries and tells nothing that we need.
disable_created_metrics()  # type: ignore[no-untyped-call]

# Machines are made, and nodes emptied, in seconds to tens of minutes.
_MACHINE_SECONDS = (1, 2.5, 5, 10, 20, 30, 60, 90, 120, 180, 300, 600, 900, 1800)
_histogram = partial(prometheus.Histogram, buckets=_MACHINE_SECONDS)

T = TypeVar("T", prometheus.Counter, prometheus.Gauge, prometheus.Histogram)


class Metrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.decisions = self._counter("decisions", "Decisions made, by what they concluded", "controller", "reason")
        self.actions = self._counter(
            "actions", "Actions that passed the door or were refused", "controller", "action", "result"
        )
        self.problems = self._counter("problems", "Invalid input reported to its author", "controller", "code")
        self.errors = self._counter(
            "reconcile_errors", "Reconciles that failed and are tried again", "controller", "error"
        )
        self.events = self._counter("events", "Events, by what became of them", "result")
        self.requests = self._counter("api_requests", "Calls to the API server", "verb", "resource", "code")
        self.relists = self._counter("view_relists", "Times a kind was listed anew", "resource")
        self.reconcile_seconds = self._seconds(
            "reconcile_seconds", "Time from taking a key to giving it back", "controller"
        )
        self.decide_seconds = self._seconds("decide_seconds", "Time that the pure decision took", "controller")
        self.request_seconds = self._seconds(
            "api_request_seconds", "Time until the API server answered", "verb", "resource"
        )
        self.queue_depth = self._gauge("queue_depth", "Keys that wait", "controller")
        self.leading = self._gauge("leading", "1 while this process leads")
        self.view_age_seconds = self._gauge("view_age_seconds", "Since the API server was last heard", "resource")
        self.view_synced = self._gauge("view_synced", "1 while the view of a kind is live", "resource")
        self.view_objects = self._gauge("view_objects", "Objects of a kind in the view", "resource")
        self.blocked = self._gauge(
            "blocked", "Keys whose next step is blocked, by what blocks it", "controller", "code"
        )
        # Under the names that dashboards of Spotalis already ask for.
        self.last_seen = prometheus.Gauge(
            "spotalis_controller_last_seen_timestamp", "When a controller last decided anything, in seconds since 1970",
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
        """Set the gauges of a decision, and drop those that the key's last decision had and this one has not."""
        published: dict[tuple[str, tuple[str, ...]], prometheus.Gauge] = {}
        before = self._series.pop((controller, key), {})
        for measure in gauges:
            series = (measure.name, tuple(measure.labels.values()))
            # Asking for a labelled series locks and compares every label: most decisions set what the last one has set.
            gauge = before.get(series) or self._series_of(measure, self._measured, prometheus.Gauge)
            gauge.set(measure.value)
            published[series] = gauge
        for name, values in before:
            if (name, values) not in published and values:
                self._measured[name].remove(*values)
        if published:
            self._series[controller, key] = published

    def count(self, counts: Iterable[Counter | Histogram]) -> None:
        """Raise the counters of a decision, of a problem in it or of a note, and enter the times that they tell."""
        for one in counts:
            if isinstance(one, Histogram):
                self._series_of(one, self._timed, _histogram).observe(one.seconds)
                continue
            series = (one.name, frozenset(one.labels.items()))
            # Asking for a labelled series locks and compares every label, hundreds of times a second in the webhook.
            counter = self._counters.get(series)
            if counter is None:
                counter = self._counters[series] = self._series_of(one, self._counted, prometheus.Counter)
            counter.inc()

    def _series_of(self, one: Gauge | Counter | Histogram, known: dict[str, T], make: Callable[..., T]) -> T:
        """Of the metric that it names, made when it is first named, the series with its labels."""
        metric = known.get(one.name)
        if metric is None:
            metric = known[one.name] = make(one.name, text_of(one.name), tuple(one.labels), registry=self.registry)
        return metric.labels(**one.labels) if one.labels else metric

    def led_by_us(self, controllers: Iterable[str], *, leading: bool) -> None:
        self.leading.set(leading)
        for name in controllers:
            self.leads.labels(name).set(leading)

    def publish_relists(self, resource: str, total: int) -> None:
        """Count up to what a reflector has counted itself."""
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
