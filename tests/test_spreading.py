"""Histories and plain functions are run aside, at the lowest priority, and nothing else is; what is left over, the others take."""

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
# Both of the others are at it until a unit test has been run by the third.
WAITS = """
import pathlib, time
pytestmark = pytest.mark.process
@pytest.fixture(autouse=True)
def until_a_unit_test_was_run():
    deadline = time.monotonic() + 120
    while "unit" not in (pathlib.Path({told!r}).read_text() if pathlib.Path({told!r}).exists() else ""):
        assert time.monotonic() < deadline
        time.sleep(0.01)
"""


def _run(directory: Path, histories: int, others: int, units: int = 0) -> list[tuple[str, str, int]]:
    told = directory / "told"
    (directory / "tests/model").mkdir(parents=True)
    files = {
        "model/test_history.py": ("history", histories),
        "test_one.py": ("other", others),
        "test_two.py": ("other", others),
        "test_unit.py": ("unit", units),
    }
    for file, (name, count) in files.items():
        text = WRITES + (WAITS if name == "other" and units else "")
        (directory / "tests" / file).write_text(text.format(count=count, told=str(told), name=name))
    (directory / "pytest.ini").write_text("[pytest]\nmarkers =\n  history\n  real\n  process\n")
    ran = run_pytest(
        directory, "-n", "3", "--dist", "loadfile", "--histories-aside", "--no-loadscope-reorder", "--import-mode=importlib",
        plugins=("xdist.plugin", "tests.spreading"),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return [
        (name, worker, int(nice)) for name, worker, nice in (line.split() for line in told.read_text().splitlines())
    ]


def test_only_the_last_process_stands_aside_and_it_runs_histories_and_unit_tests_alone(tmp_path: Path) -> None:
    told = _run(tmp_path, histories=20, others=30, units=10)
    assert len(told) == 90
    aside = [(name, nice) for name, worker, nice in told if worker == "gw2"]
    assert {name for name, _ in aside} == {"history", "unit"}
    assert {nice for _, nice in aside} == {19}
    assert os.getpriority(os.PRIO_PROCESS, 0) in {nice for _, worker, nice in told if worker != "gw2"}


def test_it_is_done_where_there_are_none(tmp_path: Path) -> None:
    assert len(_run(tmp_path, histories=1, others=10)) == 21
