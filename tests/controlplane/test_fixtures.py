"""The pytest plug-in itself, seen from outside: pytest is run on small test files."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.inner_pytest import run_pytest
from tools.controlplane.cluster import ControlPlane

pytestmark = pytest.mark.process


def run_on(
    directory: Path, source: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(source)
    (directory / "pytest.ini").write_text("[pytest]\n")
    return run_pytest(
        directory, "-rs", *arguments, plugins=("tests.realcluster",), environment={"CI": "", **(environment or {})}
    )


@pytest.fixture
def nothing_here(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine without a control plane and without Go."""
    return {
        "PATH": str(tmp_path / "empty"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PLIMSOLL_CONTROLPLANE": "",
        "KUBEBUILDER_ASSETS": "",
        "KUBERNETES": "",
    }


ONE_REAL_ONE_NOT = """
def test_real(namespace): assert namespace
def test_not_real(): pass
"""


def test_users_of_the_fixtures_are_marked_real(tmp_path: Path, nothing_here: dict[str, str]) -> None:
    done = run_on(tmp_path, ONE_REAL_ONE_NOT, "-m", "real", "--collect-only", "-q", environment=nothing_here)
    assert "test_it.py::test_real" in done.stdout
    assert "test_not_real" not in done.stdout
    unmarked = run_on(tmp_path, ONE_REAL_ONE_NOT, "-m", "not real", environment=nothing_here)
    assert "1 passed, 1 deselected" in unmarked.stdout
    # Nothing was looked for, so nothing is said.
    assert "real control plane" not in unmarked.stdout


def test_without_a_control_plane_they_are_skipped_with_the_reason(tmp_path: Path, nothing_here: dict[str, str]) -> None:
    done = run_on(tmp_path, ONE_REAL_ONE_NOT, environment=nothing_here)
    assert done.returncode == 0
    assert "1 passed, 1 skipped" in done.stdout
    assert "real control plane: NONE" in done.stdout
    assert "there is no `go` on the PATH to build it" in done.stdout
    assert "nothing is tested against a real API server" in done.stdout


def test_in_ci_a_missing_control_plane_is_a_failure(tmp_path: Path, nothing_here: dict[str, str]) -> None:
    done = run_on(tmp_path, ONE_REAL_ONE_NOT, environment={**nothing_here, "CI": "true"})
    assert done.returncode == 1
    assert re.search(r"1 passed, 1 error", done.stdout)
    assert "there is no `go` on the PATH to build it" in done.stdout


def test_clusters_are_shared_logs_kept_for_failures_and_versions_told(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    done = run_on(
        tmp_path,
        """
servers = []
def test_one(control_plane, namespace, kwok_nodes):
    servers.append(control_plane.server)
    assert kwok_nodes("1 prefix=n") == ["n-0"]

def test_two(control_plane, namespace):
    assert servers == [control_plane.server]
    assert "n-0" not in control_plane.kubectl("get", "nodes")

def test_own(new_control_plane, control_plane):
    small = {"scheduler": False, "kwok": False, "controller-manager": False, "tokens": False}
    assert new_control_plane(components=small).server != control_plane.server

def test_own_that_fails(new_control_plane):
    small = {"scheduler": False, "kwok": False, "controller-manager": False, "tokens": False}
    print("PROCESS", new_control_plane(components=small).process("etcd").pid)
    assert False, "on purpose"
""",
    )
    assert "1 failed, 3 passed" in done.stdout, done.stdout
    versions = re.escape(str(control_plane.binaries.versions))
    assert re.search(rf"real control plane: {versions} \(.*\); clusters: 3, started in \S+ s", done.stdout)
    kept = re.findall(r"logs of a control plane whose test failed: (\S+)", done.stdout)
    assert len(kept) == 1
    assert f"logs of the control plane ---------------------------\n{kept[0]}\n" in done.stdout
    assert (Path(kept[0]) / "apiserver.log").stat().st_size > 0
    shutil.rmtree(Path(kept[0]).parent)
    match = re.search(r"PROCESS (\d+)", done.stdout)
    assert match is not None
    assert not Path(f"/proc/{match[1]}").exists()


def test_a_webhook_left_behind_fails_its_own_test_and_logs_are_kept(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    done = run_on(
        tmp_path,
        """
KIND = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"

def test_leaves_one(control_plane):
    control_plane.request("POST", KIND, {"metadata": {"name": "left-over"}, "webhooks": []})

def test_after_it(control_plane):
    assert control_plane.request("GET", KIND)["items"] == []
""",
    )
    assert "2 passed, 1 error" in done.stdout, done.stdout
    assert "ERROR at teardown of test_leaves_one" in done.stdout
    assert "left behind /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/left-over" in done.stdout
    (logs,) = re.findall(r"logs of a control plane whose test failed: (\S+)", done.stdout)
    assert (Path(logs) / "etcd.log").exists()
    shutil.rmtree(Path(logs).parent)
