"""Histories are run aside, at the lowest priority, and nothing else is; what they leave over, the others take."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.inner_pytest import run_pytest

pytestmark = pytest.mark.process
WRITES = """
import os, pytest
@pytest.mark.parametrize("number", range({count}))
def test_it(number):
    with open({told!r}, "a") as file:
        print({name!r}, os.environ["PYTEST_XDIST_WORKER"], os.getpriority(os.PRIO_PROCESS, 0), file=file)
"""


def _run(directory: Path, histories: int, others: int) -> list[tuple[str, str, int]]:
    told = directory / "told"
    (directory / "tests/model").mkdir(parents=True)
    for file, count in (("model/test_history.py", histories), ("test_one.py", others), ("test_two.py", others)):
        name = "history" if file.startswith("model") else "other"
        (directory / "tests" / file).write_text(WRITES.format(count=count, told=str(told), name=name))
    (directory / "pytest.ini").write_text("[pytest]\nmarkers =\n  history\n  real\n  process\n")
    ran = run_pytest(
        directory, "-n", "3", "--dist", "loadfile", "--histories-aside", "--no-loadscope-reorder", "--import-mode=importlib",
        plugins=("xdist.plugin", "tests.spreading"),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return [
        (name, worker, int(nice)) for name, worker, nice in (line.split() for line in told.read_text().splitlines())
    ]


def test_only_the_last_process_stands_aside_and_it_runs_histories_alone(tmp_path: Path) -> None:
    told = _run(tmp_path, histories=20, others=30)
    assert len(told) == 80
    aside = [(name, nice) for name, worker, nice in told if worker == "gw2"]
    assert aside and {name for name, _ in aside} == {"history"}
    assert {nice for _, nice in aside} == {19}
    assert os.getpriority(os.PRIO_PROCESS, 0) in {nice for _, worker, nice in told if worker != "gw2"}


def test_it_is_done_where_there_are_none(tmp_path: Path) -> None:
    assert len(_run(tmp_path, histories=1, others=10)) == 21
