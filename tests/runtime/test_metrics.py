"""Gauges of decisions come and go with their keys; blockers are counted by what blocks."""

from __future__ import annotations

from prometheus_client import generate_latest

from plimsoll.kube.types.resources import Key
from plimsoll.runtime.decision import Counter, Gauge
from plimsoll.runtime.metrics import Metrics

WEB, API = Key("Deployment", "default", "web"), Key("Deployment", "default", "api")


def skew(workload: str, value: float) -> Gauge:
    return Gauge("plimsoll_test_skew", value, {"workload": workload})


def test_a_gauge_disappears_with_the_decision_that_named_it():
    metrics = Metrics()
    value = metrics.registry.get_sample_value
    metrics.publish("test", WEB, [skew("web", 2)])
    metrics.publish("test", API, [skew("api", 1)])
    assert value("plimsoll_test_skew", {"workload": "web"}) == 2
    metrics.publish("test", WEB, [skew("web", 0)])
    assert value("plimsoll_test_skew", {"workload": "web"}) == 0
    metrics.publish("test", WEB, [])
    assert value("plimsoll_test_skew", {"workload": "web"}) is None
    assert value("plimsoll_test_skew", {"workload": "api"}) == 1


def test_blockers_count_keys_and_let_go():
    metrics = Metrics()
    value = metrics.registry.get_sample_value
    labels = {"controller": "test", "code": "NotEnoughPdb"}
    metrics.publish_blockers("test", WEB, ["NotEnoughPdb", "NotEnoughPdb"])
    metrics.publish_blockers("test", API, ["NotEnoughPdb"])
    assert value("plimsoll_blocked", labels) == 2
    metrics.publish_blockers("test", WEB, [])
    assert value("plimsoll_blocked", labels) == 1


def test_relists_are_counted_up_to_what_the_reflector_counted():
    metrics = Metrics()
    for total in (1, 1, 3):
        metrics.publish_relists("pods", total)
    assert metrics.registry.get_sample_value("plimsoll_view_relists_total", {"resource": "pods"}) == 3


def test_no_created_series_double_the_scrape():
    metrics = Metrics()
    metrics.events.labels("created").inc()
    assert b"plimsoll_events_created{" not in generate_latest(metrics.registry)
    assert b"_created " not in generate_latest(metrics.registry).replace(b'result="created"', b"")


def test_a_counter_is_found_again_by_its_labels_in_any_order():
    metrics = Metrics()
    name = "spotalis_webhook_requests_total"
    one = {"operation": "CREATE", "resource_kind": "Pod", "result": "assigned"}
    other = {"operation": "Pod", "resource_kind": "CREATE", "result": "assigned"}
    for labels in (one, dict(reversed(one.items())), other):
        metrics.count([Counter(name, labels)])
    assert metrics.registry.get_sample_value(name, one) == 2
    assert metrics.registry.get_sample_value(name, other) == 1
