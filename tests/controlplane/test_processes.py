"""Children that never outlive their parent, and what can be done to them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.controlplane.leftovers import keep, new_directory, remove_leftovers
from tools.controlplane.process import ComponentFailedError, Process, started_at, wait_until_gone

pytestmark = pytest.mark.process

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Process]:
    process = Process("sleeper", ["sleep", "1000"], tmp_path / "sleeper.log")
    yield process
    process.stop()


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_it_starts_stops_and_starts_again(sleeper: Process) -> None:
    sleeper.start()
    first = sleeper.pid
    assert first is not None
    sleeper.stop()
    assert not sleeper.running
    assert started_at(first) is None
    sleeper.start()
    assert sleeper.pid != first


def test_a_pause_freezes_it_and_stopping_works_all_the_same(sleeper: Process) -> None:
    sleeper.start()
    pid = sleeper.pid
    assert pid is not None
    sleeper.pause()
    eventually(lambda: state_of(pid) == "T")
    sleeper.resume()
    eventually(lambda: state_of(pid) == "S")
    sleeper.pause()
    sleeper.stop(grace_seconds=5.0)
    assert started_at(pid) is None


def test_a_grace_lets_it_end_by_itself(tmp_path: Path) -> None:
    script = "trap 'echo goodbye; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    process = Process("polite", ["sh", "-c", script], tmp_path / "polite.log")
    process.start()
    eventually(lambda: "ready" in process.log.read_text())
    process.stop(grace_seconds=5.0)
    assert process.log.read_text().splitlines()[-1] == "goodbye"


def test_stopping_takes_its_children_along(tmp_path: Path) -> None:
    process = Process("family", ["sh", "-c", "sleep 1000 & echo $!; wait"], tmp_path / "family.log")
    process.start()
    eventually(lambda: process.log.read_text().strip() != "")
    child = int(process.log.read_text())
    process.stop()
    eventually(lambda: started_at(child) is None)


def test_one_that_ended_is_reported_with_its_last_words(tmp_path: Path) -> None:
    process = Process("broken", ["sh", "-c", "echo 'no such flag'; exit 3"], tmp_path / "broken.log")
    process.start()
    eventually(lambda: not process.running)
    with pytest.raises(ComponentFailedError, match=r"(?s)broken ended with code 3.*broken\.log:\n  no such flag"):
        process.check()
    process.stop()


def test_the_log_outlives_a_restart(tmp_path: Path) -> None:
    process = Process("talker", ["sh", "-c", "echo once; sleep 1000"], tmp_path / "talker.log")
    for count in (1, 2):
        process.start()
        eventually(lambda count=count: process.log.read_text().count("once") == count)  # type: ignore[misc]
        process.stop()


def test_what_does_not_run_cannot_be_paused(sleeper: Process) -> None:
    with pytest.raises(RuntimeError, match="cannot pause sleeper: it is not running"):
        sleeper.pause()


def test_the_end_of_a_thread_is_not_the_end_of_what_it_started(sleeper: Process) -> None:
    thread = threading.Thread(target=sleeper.start)
    thread.start()
    thread.join()
    time.sleep(0.2)  # the kernel would have killed it by now
    assert sleeper.running


def test_ctrl_c_in_the_terminal_reaches_the_parent_alone(sleeper: Process) -> None:
    sleeper.start()
    pid = sleeper.pid
    assert pid is not None
    assert os.getpgid(pid) == pid != os.getpgid(os.getpid())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of their parent's death")
def test_a_parent_killed_outright_takes_its_children_along(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path; from tools.controlplane.process import Process; import sys, time\n"
        f"process = Process('sleeper', ['sleep', '1000'], Path({str(tmp_path / 'log')!r}))\n"
        "process.start(); print(process.pid, flush=True); time.sleep(1000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        started = started_at(child)
        assert started is not None
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        assert wait_until_gone(child, started, 5.0)


def test_an_id_that_was_given_to_another_process_is_not_mistaken(sleeper: Process) -> None:
    sleeper.start()
    assert sleeper.pid is not None
    assert wait_until_gone(sleeper.pid, "started at another time", 1.0)
    assert not wait_until_gone(sleeper.pid, started_at(sleeper.pid) or "", 0.1)


def test_directories_of_a_killed_owner_are_removed_and_others_are_not() -> None:
    ours, orphan, kept, containers = (new_directory("leftovers-test") for _ in range(4))
    namespace, pid, _ = (ours / "owner").read_text().split(maxsplit=2)
    try:
        (orphan / "owner").write_text(f"{namespace} {pid} started-at-another-time")
        (containers / "owner").write_text(f"pid:[1] {pid} started-at-another-time")
        keep(kept)
        remove_leftovers()
        assert [path.exists() for path in (ours, orphan, kept, containers)] == [True, False, True, True]
    finally:
        for directory in (ours, kept, containers):
            shutil.rmtree(directory)


def test_what_etcd_writes_stays_in_memory_where_there_is_a_place_for_it() -> None:
    directory = new_directory("leftovers-test", in_memory=True)
    shutil.rmtree(directory)
    in_memory = Path("/dev/shm").is_dir()
    assert directory.parent == (Path("/dev/shm") if in_memory else Path(tempfile.gettempdir()))
