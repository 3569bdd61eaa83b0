"""A wait that ran out on the real control plane is tried once more, and told; whatever else fails has failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.inner_pytest import run_pytest

pytestmark = pytest.mark.process
HEAD = """
import asyncio, pathlib, pytest, subprocess
from tests.eventually import eventually
"""
FAILS_AT_FIRST = """
{marks}
def test_{name}():
    tried = pathlib.Path("{name}")
    first = not tried.exists()
    tried.touch()
    if first:
        {failure}
"""
REAL = "@pytest.mark.real"
NEVER_COMES = 'asyncio.run(eventually(lambda: False, "what never comes", seconds=0))'
IN_A_GROUP = 'raise BaseExceptionGroup("of a task group", [TimeoutError(), {}])'
WAITS = {
    "eventually": NEVER_COMES,
    "timeout": "raise TimeoutError",
    "process": "subprocess.run(['sleep', '9'], timeout=0.01)",
    "plugin": "pytest.fail('Timeout (>300.0s) from pytest-timeout.')",
    "group": IN_A_GROUP.format("TimeoutError()"),
}
WRONG = {
    "assertion": "assert 1 == 2",
    "error": "raise OSError",
    "failure": "pytest.fail('wrong')",
    "mixed": IN_A_GROUP.format("ValueError()"),
}


def _run(directory: Path, tests: str, *options: str) -> str:
    (directory / "test_it.py").write_text(HEAD + tests)
    (directory / "pytest.ini").write_text("[pytest]\nmarkers =\n  real\n  soak\n")
    return run_pytest(directory, "-v", *options, plugins=("pytest_rerunfailures", "tests.second_try")).stdout


def test_waits_that_ran_out_are_tried_again_and_nothing_else_is(tmp_path: Path) -> None:
    tests = [FAILS_AT_FIRST.format(name=name, failure=text, marks=REAL) for name, text in (WAITS | WRONG).items()]
    tests.append(FAILS_AT_FIRST.format(name="campaign", failure=NEVER_COMES, marks=f"{REAL}\n@pytest.mark.soak"))
    tests.append(FAILS_AT_FIRST.format(name="unit", failure=NEVER_COMES, marks=""))
    told = _run(tmp_path, "".join(tests), "--rerun-show-tracebacks")
    assert told.splitlines()[-1].strip("= ").startswith(f"6 failed, {len(WAITS)} passed, {len(WAITS)} rerun"), told
    for name in WAITS:
        assert f"test_it.py::test_{name} RERUN" in told and f"test_it.py::test_{name} PASSED" in told
    # Seen, though it passed.
    assert told.index("rerun test summary info") < told.rindex("never came: what never comes")


def test_more_than_a_few_are_a_failure(tmp_path: Path) -> None:
    tests = [FAILS_AT_FIRST.format(name=f"number_{n}", failure=NEVER_COMES, marks=REAL) for n in range(3)]
    told = _run(tmp_path, "".join(tests), "--max-suite-reruns", "2")
    assert told.splitlines()[-1].strip("= ").startswith("1 failed, 2 passed, 2 rerun"), told
