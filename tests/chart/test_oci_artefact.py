"""The chart as an OCI artefact: packed, pushed, pulled again to the letter, and installed from where it was pulled."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.chart.registry import registry
from tests.chart.test_chart_equals_manifests import CHART

pytestmark = pytest.mark.process


def run(helm: Path, *arguments: str | Path, home: Path) -> str:
    """helm with a home of its own: a person's registries and credentials are none of a test's business."""
    done = subprocess.run(
        [str(helm), *(str(word) for word in arguments)],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_is_pushed_and_pulled_and_installs_the_same(helm: Path, tmp_path: Path):
    run(helm, "package", CHART, "--destination", tmp_path, home=tmp_path)
    (package,) = tmp_path.glob("plimsoll-*.tgz")
    pulled = tmp_path / "pulled"
    pulled.mkdir()
    with registry() as server:
        where = f"oci://{server.host}/charts"
        run(helm, "push", package, where, "--plain-http", home=tmp_path)
        kinds = {kind for kind, _ in server.manifests.values()}
        assert kinds == {"application/vnd.oci.image.manifest.v1+json"}
        (_, manifest) = server.manifests["charts/plimsoll", "0.1.0"]
        assert json.loads(manifest)["config"]["mediaType"] == "application/vnd.cncf.helm.config.v1+json"
        version = ("--version", "0.1.0", "--plain-http")
        run(helm, "pull", f"{where}/plimsoll", *version, "--destination", pulled, home=tmp_path)
        (again,) = pulled.iterdir()
        assert again.read_bytes() == package.read_bytes()
        from_registry = run(helm, "template", "plimsoll", f"{where}/plimsoll", *version, home=tmp_path)
    assert from_registry == run(helm, "template", "plimsoll", CHART, home=tmp_path)


def test_the_package_has_what_the_chart_needs_and_nothing_else(helm: Path, tmp_path: Path):
    run(helm, "package", CHART, "--destination", tmp_path, home=tmp_path)
    (package,) = tmp_path.glob("plimsoll-*.tgz")
    listed = subprocess.run(["tar", "-tzf", str(package)], capture_output=True, text=True, check=True).stdout.split()
    names = {name.removeprefix("plimsoll/") for name in listed}
    there = {str(path.relative_to(CHART)) for path in CHART.rglob("*") if path.is_file()}
    assert names == there
