"""The steps of the Dockerfile, carried out without a container engine: what comes of them runs as nobody, where nothing can be
written."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from plimsoll import __version__
from plimsoll.manifests.pods import NOBODY
from tests.image.dockerfile import ROOT

pytestmark = pytest.mark.process


def as_nobody(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Where we are root, in a user namespace in which we are not: with neither a name, nor a home, nor a capability."""
    nobody = ["unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}"] if os.geteuid() == 0 else []
    return subprocess.run(
        [*nobody, *(str(word) for word in command)],
        cwd=cwd, env={"PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    """A directory in which nothing can be written."""
    found = tmp_path / "read-only"
    found.mkdir()
    found.chmod(0o555)
    return found


def test_it_runs_as_nobody_where_nothing_can_be_written(installed: Path, nowhere: Path):
    told = as_nobody(installed / "bin" / "plimsoll", "version", cwd=nowhere)
    assert told.stdout.startswith(f"plimsoll {__version__} "), told.stderr
    printed = as_nobody(installed / "bin" / "plimsoll", "manifests", "-o", "json", cwd=nowhere)
    assert json.loads(printed.stdout)["kind"] == "List"
    refused = as_nobody(installed / "bin" / "plimsoll", "run", "--kubeconfig", "none", cwd=nowhere)
    assert "Traceback" not in refused.stderr
    assert not list(nowhere.iterdir())


def test_it_has_the_locked_versions_and_nothing_of_development(installed: Path, nowhere: Path):
    code = (
        "import importlib.metadata as m, json; "
        "print(json.dumps({d.name.lower().replace('_', '-'): d.version for d in m.distributions()}))"
    )
    found = json.loads(as_nobody(installed / "bin" / "python", "-c", code, cwd=nowhere).stdout)
    locked = {(one["name"], one["version"]) for one in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}
    assert found.pop("plimsoll-operator") == __version__
    assert set(found.items()) <= locked
    assert {"aiohttp", "msgspec", "click"} <= set(found)
    assert not {"pytest", "mypy", "ruff"} & set(found)


def test_the_wheel_has_every_file_of_the_package(installed: Path):
    """Also those that are no Python: schemas, pages, and the mark that it is typed."""
    (package,) = installed.glob("lib/python3.*/site-packages/plimsoll")
    source = ROOT / "src" / "plimsoll"
    files = {
        path.relative_to(source) for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }
    there = {
        path.relative_to(package) for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }
    assert there == files
    compiled = list(package.rglob("*.pyc"))
    assert len(compiled) >= len([path for path in files if path.suffix == ".py"]), (
        "nothing is left to compile at run time"
    )


def test_the_bill_of_materials_lists_what_is_locked(tmp_path: Path):
    done = subprocess.run(["make", "-s", "sbom"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    bill = json.loads((ROOT / "artifacts" / "sbom.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert {"aiohttp", "cryptography", "numpy"} <= {one["name"] for one in bill["components"]}
    assert "pytest" not in {one["name"] for one in bill["components"]}
