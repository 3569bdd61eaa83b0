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


SHARED_AND_OWN = """
SMALL = {"scheduler": False, "kwok": False, "controller-manager": False, "tokens": False}
KIND = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
servers = []

def test_one(control_plane, namespace, kwok_nodes):
    servers.append(control_plane.server)
    assert kwok_nodes("1 prefix=n") == ["n-0"]

def test_two(control_plane, namespace):
    assert servers == [control_plane.server]
    assert "n-0" not in control_plane.kubectl("get", "nodes")

def test_own(new_control_plane, control_plane):
    assert new_control_plane(components=SMALL).server != control_plane.server

def test_own_that_fails(new_control_plane):
    print("PROCESS", new_control_plane(components=SMALL).process("etcd").pid)
    assert False, "on purpose"

def test_leaves_a_webhook(control_plane):
    control_plane.request("POST", KIND, {"metadata": {"name": "left-over"}, "webhooks": []})

def test_after_it(control_plane):
    assert control_plane.request("GET", KIND)["items"] == []
"""


def test_clusters_are_shared_logs_kept_for_failures_versions_told_and_webhooks_not_left_behind(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """One run for all of it: its clusters take longer to start than everything else."""
    done = run_on(tmp_path, SHARED_AND_OWN)
    assert "1 failed, 5 passed, 1 error" in done.stdout, done.stdout
    versions = re.escape(str(control_plane.binaries.versions))
    assert re.search(rf"real control plane: {versions} \(.*\); clusters: 3, started in \S+ s", done.stdout)
    own, shared = re.findall(r"logs of a control plane whose test failed: (\S+)", done.stdout)
    told = dict(
        re.findall(r"^_+ (.*test_\w+) _+$(?s:.*?)^-+ logs of the control plane -+\n(\S+)$", done.stdout, re.MULTILINE)
    )
    assert told == {"ERROR at teardown of test_leaves_a_webhook": shared, "test_own_that_fails": own}
    assert "left behind /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/left-over" in done.stdout
    for logs in (own, shared):
        assert (Path(logs) / "apiserver.log").stat().st_size > 0
        shutil.rmtree(Path(logs).parent)
    match = re.search(r"PROCESS (\d+)", done.stdout)
    assert match is not None
    assert not Path(f"/proc/{match[1]}").exists()
