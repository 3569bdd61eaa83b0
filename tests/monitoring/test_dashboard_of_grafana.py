"""The dashboard of Grafana asks for metrics that exist, by labels that they have."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from plimsoll.manifests.grafana import dashboard, expressions
from tools.docs.metrics import metrics_page

METRIC = re.compile(r"\b((?:plimsoll|spotalis|vpsie_autoscaler)_\w+?)(?:_bucket)?\b(?=[\[\s){])")
GROUPED = re.compile(r"by \(([^)]*)\)")
OF_THE_SCRAPE = {"namespace", "pod"}  # what Prometheus adds to each series by itself
LISTED = re.compile(r"^\| `(\w+)` \| \w+ \| ([^|]*) \|", re.MULTILINE)


@pytest.fixture(scope="module")
def labels() -> dict[str, set[str]]:
    """Every metric that there is, with its labels: as the page about them lists it, which is made from the code."""
    return {name: set(re.findall(r"`(\w+)`", told)) for name, told in LISTED.findall(metrics_page())}


def test_every_metric_exists_and_has_the_labels_that_it_is_grouped_by(labels: dict[str, set[str]]):
    asked = set()
    for expression in expressions():
        (name,) = METRIC.findall(expression)
        asked.add(name)
        for grouped in GROUPED.findall(expression):
            assert set(grouped.split(", ")) - {"le"} - OF_THE_SCRAPE <= labels[name], expression
    assert len(asked) > 20


def test_panels_do_not_overlap_and_have_numbers_of_their_own():
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each expression as a recording rule, which is how promtool reads them."""
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(expressions())]
    file = tmp_path_factory.mktemp("grafana") / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    return file


def test_every_query_is_one_that_prometheus_understands(promtool: Path, queries: Path):
    done = subprocess.run(
        [str(promtool), "check", "rules", "--lint=none", str(queries)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
