"""What Prometheus reads."""

from __future__ import annotations

import aiohttp
import pytest
from prometheus_client import Counter, Gauge
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from plimsoll.runtime.health_server import HealthServer
from plimsoll.runtime.metrics import Metrics
from tests.webhook.test_health import Health


async def scrape(metrics: Metrics, **headers: str) -> tuple[str, str]:
    async with (
        HealthServer("127.0.0.1", 0, Health(), metrics.registry) as server,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{server.port}/metrics", headers=headers) as response,
    ):
        assert response.status == 200
        return await response.text(), response.headers["Content-Type"]


async def test_the_registry_that_was_passed_in_and_no_other() -> None:
    metrics = Metrics()
    metrics.decisions.labels("deletion-cost", "InOrder").inc(3)
    Gauge("of_another_registry", "not ours")
    text, content_type = await scrape(metrics)
    assert content_type.startswith("text/plain; version=")
    samples = {s.name: s.value for family in text_string_to_metric_families(text) for s in family.samples}
    assert samples["plimsoll_decisions_total"] == 3
    assert "of_another_registry" not in samples


async def test_no_series_tells_when_a_counter_was_made() -> None:
    metrics = Metrics()
    metrics.events.labels("sent").inc()
    metrics.decide_seconds.labels("deletion-cost").observe(0.1)
    for accept in ("text/plain", "application/openmetrics-text; version=1.0.0"):
        text, _ = await scrape(metrics, Accept=accept)
        assert "plimsoll_events_total" in text
        assert "_created" not in text


async def test_openmetrics_where_it_is_asked_for() -> None:
    metrics = Metrics()
    metrics.leading.set(1)
    text, content_type = await scrape(metrics, Accept="application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    families = parse_openmetrics(text)  # type: ignore[no-untyped-call]
    assert "plimsoll_leading" in {family.name for family in families}


@pytest.mark.parametrize("accept", ["", "*/*", "application/json", "application/openmetrics-text; version=new", ";;,="])
async def test_any_accept_header_gets_an_answer(accept: str) -> None:
    text, _ = await scrape(Metrics(), Accept=accept)
    assert "plimsoll_leading 0.0" in text


async def test_a_large_answer_travels_compressed() -> None:
    metrics = Metrics()
    many = Counter("many", "Many series", ["n"], registry=metrics.registry)
    for number in range(2_000):
        many.labels(str(number)).inc()
    async with (
        HealthServer("127.0.0.1", 0, Health(), metrics.registry) as server,
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.get(f"http://127.0.0.1:{server.port}/metrics", headers={"Accept-Encoding": "gzip"}) as response,
    ):
        assert response.headers["Content-Encoding"] == "gzip"
        assert len(await response.read()) < 2_000 * len('many_total{n="1"} 1.0') / 2
