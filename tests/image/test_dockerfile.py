"""What the Dockerfile promises: pinned, two stages, nobody's rights, and only what is needed in the context."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from plimsoll.manifests.pods import NOBODY
from tests.image.dockerfile import ROOT, Instruction, stages, variables
from tools.controlplane.gobuild import GoBuildError
from tools.dockerfile import dockerfile_checker

TEXT = (ROOT / "Dockerfile").read_text()
BEFORE, BUILD, LAST = stages(TEXT)


def the(word: str, stage: list[Instruction]) -> str:
    (found,) = (one.rest for one in stage if one.word == word)
    return found


def test_the_base_is_pinned_and_the_same_in_both_stages():
    base = variables(BEFORE)["BASE"]
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", base), base
    assert the("FROM", BUILD) == "${BASE} AS build"
    assert the("FROM", LAST) == "${BASE}"
    python = re.search(r'requires-python = ">=(3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert python
    assert tuple(map(int, base.split(":")[1].split(".")[:2])) >= tuple(map(int, python[1].split(".")))


def test_uv_is_the_one_of_the_makefile_and_follows_the_lock_file():
    makefile = re.search(r"^UV_VERSION := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert makefile
    assert variables(BUILD)["UV_VERSION"] == makefile[1]
    syncs = [one.rest for one in BUILD if one.word == "RUN" and "uv sync" in one.rest]
    assert len(syncs) == 2
    assert all("--locked" in sync and "--no-dev" in sync for sync in syncs)


def test_it_runs_as_the_user_of_the_manifests_and_takes_their_arguments():
    assert the("USER", LAST) == f"{NOBODY}:{NOBODY}"
    assert the("ENTRYPOINT", LAST) == '["plimsoll"]'
    assert [one.rest for one in LAST if one.word == "COPY"] == ["--from=build /opt/plimsoll /opt/plimsoll"]
    assert not [one for one in LAST if one.word in ("RUN", "ADD", "VOLUME")]


@pytest.mark.parametrize("word", ["ADD", "MAINTAINER"])
def test_nothing_outdated(word: str):
    assert not [one for stage in stages(TEXT) for one in stage if one.word == word]


def test_the_context_is_what_is_copied(tmp_path: Path):
    """.dockerignore has .gitignore's rules for what we use of it, so git can judge."""
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    kept = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {source for one in BUILD if one.word == "COPY" for source in one.rest.split()[:-1]}
    assert kept == copied
    assert ignored[0] == "*"
    tracked = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert not [name for name in tracked.splitlines() if "__pycache__" in name]


@pytest.fixture(scope="session")
def checker() -> Path:
    try:
        return dockerfile_checker()
    except GoBuildError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


def checked(checker: Path, file: Path) -> list[str]:
    done = subprocess.run([str(checker), str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


def test_buildkit_has_nothing_to_object(checker: Path):
    assert checked(checker, ROOT / "Dockerfile") == []


def test_the_checks_of_buildkit_find_what_they_should(checker: Path, tmp_path: Path):
    (tmp_path / "Dockerfile").write_text("FROM python as Build\nMAINTAINER someone\nENTRYPOINT plimsoll\n")
    rules = {line.split(": ")[1] for line in checked(checker, tmp_path / "Dockerfile")}
    assert {"FromAsCasing", "StageNameCasing", "MaintainerDeprecated"} <= rules
