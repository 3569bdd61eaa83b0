"""What a control plane leaves behind: after a good end, a bad one, and none at all."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.realcluster import API_SERVER_ALONE
from tools.controlplane import cluster as cluster_module
from tools.controlplane.api import ApiError
from tools.controlplane.cluster import ControlPlane
from tools.controlplane.leftovers import remove_leftovers
from tools.controlplane.ports import ReservedPorts
from tools.controlplane.process import ComponentFailedError, started_at, wait_until_gone

REPOSITORY = Path(__file__).parents[2]


def identities(cluster: ControlPlane) -> dict[int, str]:
    found: dict[int, str] = {}
    for path in cluster.logs.iterdir():
        pid = cluster.process(path.stem).pid
        assert pid is not None
        found[pid] = started_at(pid) or ""
    return found


def assert_gone(processes: dict[int, str], count: int) -> None:
    assert len(processes) == count
    for pid, started in processes.items():
        assert wait_until_gone(pid, started, 5.0)


def test_after_a_good_end_nothing_is_left(control_plane: ControlPlane) -> None:
    with ControlPlane.start(binaries=control_plane.binaries) as cluster:
        processes = identities(cluster)
        etcd_directory = cluster._etcd_directory
        assert (etcd_directory / "data").is_dir()
    assert_gone(processes, 6)
    assert not cluster.directory.exists()
    assert not etcd_directory.exists()


def test_after_an_exception_the_logs_are_left_and_said_where(
    control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = ControlPlane.start(binaries=control_plane.binaries, components=API_SERVER_ALONE)
    processes = identities(cluster)
    with pytest.raises(ZeroDivisionError), cluster:
        _ = 1 / 0
    assert_gone(processes, 2)
    assert f"logs of the control plane: {cluster.logs}" in capsys.readouterr().err
    assert (cluster.logs / "apiserver.log").stat().st_size > 0
    # Nothing that a stranger could use, and nothing big.
    assert [path.name for path in cluster.directory.iterdir()] == ["logs"]
    assert not cluster._etcd_directory.exists()
    for path in (*cluster.logs.iterdir(), cluster.logs, cluster.directory):
        path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_after_the_parents_end_nothing_runs(control_plane: ControlPlane, number: signal.Signals) -> None:
    script = (
        "import time; from tools.controlplane.cluster import ControlPlane\n"
        f"with ControlPlane.start(components={API_SERVER_ALONE}) as cluster:\n"
        "    print(*(process.pid for process in cluster._processes.values()), flush=True)\n"
        "    print(cluster.directory, flush=True)\n"
        "    time.sleep(1000)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        processes = {int(pid): started_at(int(pid)) or "" for pid in parent.stdout.readline().split()}
        directory = Path(parent.stdout.readline().strip())
        parent.send_signal(number)
        parent.wait()
    assert_gone(processes, 2)
    # A parent that was killed outright could not tidy up: the next start does.
    if number is signal.SIGKILL:
        remove_leftovers()
    assert not directory.exists()


def test_a_component_that_cannot_start_is_reported_with_its_log(control_plane: ControlPlane) -> None:
    with pytest.raises(
        ComponentFailedError, match=r"(?s)apiserver ended with code 1.*unknown flag: --no-such-flag"
    ) as caught:
        ControlPlane.start(binaries=control_plane.binaries, extra_args={"apiserver": ["--no-such-flag"]})
    logs = Path(str(caught.value).split("the end of ")[1].split("/apiserver.log")[0])
    assert logs.is_dir()
    for path in (*logs.iterdir(), logs, logs.parent):
        path.rmdir() if path.is_dir() else path.unlink()


def test_a_port_that_another_program_takes_meanwhile_is_replaced(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as stranger:

        class TakenPorts(ReservedPorts):
            def __init__(self, count: int) -> None:
                super().__init__(count)
                if stranger.getsockname()[1] == 0:
                    stranger.bind(("127.0.0.1", self.numbers[3]))
                    stranger.listen()

        monkeypatch.setattr(cluster_module, "ReservedPorts", TakenPorts)
        with ControlPlane.start(binaries=control_plane.binaries, components=API_SERVER_ALONE) as cluster:
            assert stranger.getsockname()[1] not in cluster._ports.numbers  # type: ignore[union-attr]


def test_ports_are_reserved_against_other_clusters() -> None:
    first = ReservedPorts(3)
    try:
        for port in first.numbers:
            with (
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as reservation,
                pytest.raises(OSError, match="in use"),
            ):
                reservation.bind(("127.0.0.1", port))
    finally:
        first.release()


def test_what_does_not_come_true_is_a_timeout_with_the_place_of_the_logs(control_plane: ControlPlane) -> None:
    with pytest.raises(TimeoutError, match=r"waited 0\.1 s in vain for the moon; logs: "):
        control_plane.wait_for(lambda: False, "the moon", timeout=0.1)


def test_a_refusal_of_the_server_has_its_words(control_plane: ControlPlane) -> None:
    with pytest.raises(ApiError, match=r'GET /api/v1/nodes/nobody: 404 nodes "nobody" not found') as caught:
        control_plane.request("GET", "/api/v1/nodes/nobody")
    assert caught.value.status == 404
