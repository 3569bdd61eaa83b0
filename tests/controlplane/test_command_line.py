"""`python -m tools.controlplane`, as a person calls it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from tools.controlplane import background
from tools.controlplane.__main__ import main
from tools.controlplane.cluster import ControlPlane
from tools.controlplane.process import started_at, wait_until_gone

pytestmark = pytest.mark.process

REPOSITORY = Path(__file__).parents[2]


def call(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.controlplane", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **(environment or {})},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clusters of this test alone, stopped at its end whatever happens."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield
    for state in background.running_clusters():
        background.down(state.name)


@pytest.mark.usefixtures("control_plane")
def test_up_status_kubeconfig_and_down() -> None:
    up = call("up", "--nodes", "2 zone=a class=spot", "--nodes", "1 zone=b")
    assert up.returncode == 0, up.stderr
    kubeconfig = Path(up.stdout.strip())
    server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    assert up.stderr.startswith("Kubernetes v")

    other = call("up", "--name", "other")
    assert other.returncode == 0, other.stderr
    assert call("kubeconfig").stdout == up.stdout
    assert call("kubeconfig", "--name", "other").stdout == other.stdout != up.stdout

    status = call("status").stdout
    assert f"at {server}, 3 nodes" in status
    assert "other: Kubernetes v" in status
    again = call("up")
    assert (again.returncode, again.stderr) == (1, f"error: cluster 'default' is already running: {kubeconfig}\n")

    keepers = {state.keeper: started_at(state.keeper) for state in background.running_clusters()}
    assert call("down").returncode == 0
    assert [state.name for state in background.running_clusters()] == ["other"]
    assert not kubeconfig.exists()
    assert call("down", "--all").returncode == 0
    assert all(started_at(pid) is None for pid in keepers)
    assert "no cluster is running" in call("status").stdout


@pytest.mark.usefixtures("control_plane")
def test_a_killed_keeper_leaves_no_process_and_its_name_free() -> None:
    assert call("up", "--name", "fated").returncode == 0
    state = background.find("fated")
    children = {pid: started_at(pid) or "" for pid in children_of(state.keeper)}
    assert len(children) == 6
    os.kill(state.keeper, signal.SIGKILL)
    for pid, started in children.items():
        assert wait_until_gone(pid, started, 5.0)
    assert call("kubeconfig", "--name", "fated").returncode == 1
    assert background.running_clusters() == []


def children_of(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for thread in threads for child in (thread / "children").read_text().split()]


def test_a_cluster_that_does_not_start_is_explained(control_plane: ControlPlane, tmp_path: Path) -> None:
    broken = tmp_path / "programs"
    broken.mkdir()
    for program in control_plane.binaries.directory.iterdir():
        if program.is_file():
            (broken / program.name).symlink_to(program)
    (broken / "etcd").unlink()
    (broken / "etcd").write_text(
        "#!/bin/sh\necho etcd Version: 9.9.9; [ $1 = --version ] || { echo 'out of order'; exit 7; }\n"
    )
    (broken / "etcd").chmod(0o755)
    up = call("up", environment={"PLIMSOLL_CONTROLPLANE": str(broken), "KUBERNETES": ""})
    assert up.returncode == 1
    assert "cluster 'default' did not start:" in up.stderr
    assert "etcd ended with code 7" in up.stderr
    assert "out of order" in up.stderr
    shutil.rmtree(Path(up.stderr.split("the end of ")[1].split("/logs/")[0]))


def test_help_has_examples() -> None:
    shown = call("--help").stdout
    assert 'up --nodes "3 zone=a class=spot cpu=8 memory=32Gi"' in shown
    assert "taint:KEY[=VALUE]:EFFECT" in shown


@pytest.mark.parametrize("command", ["down", "kubeconfig"])
def test_a_cluster_that_does_not_run_is_named_with_what_to_do(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--name", "ghost"]) == 1
    assert capsys.readouterr().err == (
        "error: no cluster 'ghost' is running (running: none); start it with `up --name ghost`\n"
    )


def test_a_faulty_line_of_nodes_is_refused_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--nodes", "3 zone=a cpus=8"]) == 2
    assert "'cpus=8' in nodes '3 zone=a cpus=8' is not known" in capsys.readouterr().err


def test_a_faulty_name_is_refused() -> None:
    with pytest.raises(background.NamedClusterError, match=r"'\.\./etc' is no name for a cluster"):
        background.up("../etc", [])


def test_a_build_that_is_not_possible_fails_unless_it_need_not_succeed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("CI", "PLIMSOLL_CONTROLPLANE", "KUBEBUILDER_ASSETS", "KUBERNETES"):
        monkeypatch.delenv(variable, raising=False)
    assert main(["build"]) == 1
    assert capsys.readouterr().err.startswith("error: No real control plane (Kubernetes v1.37.1")
    assert main(["build", "--if-possible"]) == 0
    assert capsys.readouterr().err.startswith("warning: No real control plane")
    monkeypatch.setenv("CI", "true")
    assert main(["build", "--if-possible"]) == 1


def test_a_state_file_of_a_reused_process_id_is_not_believed(tmp_path: Path) -> None:
    directory = background.state_directory() / "stale"
    directory.mkdir(parents=True)
    (directory / "state.json").write_text(
        f'{{"name": "stale", "keeper": {os.getpid()}, "keeper_started": "at another time", "server": "", '
        '"kubeconfig": "", "logs": "", "versions": ""}',
    )
    assert background.running_clusters() == []
    with pytest.raises(background.NamedClusterError, match="no cluster 'stale' is running"):
        background.down("stale")
