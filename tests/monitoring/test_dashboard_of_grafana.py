"""The dashboard of Grafana asks for metrics that exist, by labels that they have."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from plimsoll.manifests.grafana import dashboard, expressions

SOURCES = Path(__file__).parents[2] / "src" / "plimsoll"
METRIC = re.compile(r"\b((?:plimsoll|spotalis|vpsie_autoscaler)_\w+?)(?:_bucket)?\b(?=[\[\s){])")


def asked_for() -> set[str]:
    return {name for expression in expressions() for name in METRIC.findall(expression)}


def test_every_metric_is_one_that_the_code_makes():
    made = "\n".join(
        path.read_text() for path in SOURCES.rglob("*.py") if path.parent.name != "manifests"
    )  # what monitors must not vouch for itself
    asked = asked_for()
    assert len(asked) > 20
    for name in asked:
        if match := re.fullmatch(r"vpsie_autoscaler_nodegroup_(\w+)_nodes", name):
            assert 'f"{PREFIX}nodegroup_{name}_nodes"' in made
            assert f'"{match[1]}"' in made, name
            continue
        of_the_runtime = name.removeprefix("plimsoll_").removesuffix("_total")
        spellings = (f'"{name}"', f'f"{{PREFIX}}{name.removeprefix("vpsie_autoscaler_")}"', f'"{of_the_runtime}"')
        assert any(one in made for one in spellings), name


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
