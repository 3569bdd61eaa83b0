"""The reference of metrics names what the code measures, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import plimsoll
from plimsoll.controllers.nodegroups.report import PREFIX
from plimsoll.runtime.metric_catalogue import CATALOGUE
from plimsoll.runtime.metrics import Metrics

SOURCE = Path(plimsoll.__file__).parent
NAME = re.compile(r'"((?:spotalis|vpsie_autoscaler|plimsoll)_[a-z_]*[a-z])"')
PREFIXED = re.compile(r'f"\{PREFIX\}([a-z]+_[a-z_{}]+)"')


def names_in_the_code() -> set[str]:
    found: set[str] = set()
    for file in SOURCE.rglob("*.py"):
        if file.name in ("metric_catalogue.py", "metrics.py", "grafana.py"):  # what draws them measures nothing
            continue
        text = file.read_text()
        found |= set(NAME.findall(text))
        for name in PREFIXED.findall(text):
            sizes = ("desired", "current", "ready", "min", "max") if "{name}" in name else ("",)
            found |= {PREFIX + name.replace("{name}", size) for size in sizes}
    return found


def test_every_name_is_declared_and_every_declared_one_is_used() -> None:
    assert names_in_the_code() == set(CATALOGUE)


def test_what_a_scrape_says_of_a_metric_is_what_the_reference_says() -> None:
    from prometheus_client import generate_latest

    from plimsoll.runtime.decision import Counter

    metrics = Metrics()
    name = "vpsie_autoscaler_scale_up_total"
    metrics.count([Counter(name, {"nodegroup": "g", "namespace": "n"})])
    assert f"# HELP {name} {CATALOGUE[name].text}" in generate_latest(metrics.registry).decode()
