"""What the build stage of the Dockerfile makes, once for all tests."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.image.dockerfile import ROOT, perform, stages

_, BUILD, _ = stages((ROOT / "Dockerfile").read_text())


@pytest.fixture(scope="package")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """/opt/plimsoll, elsewhere."""
    directory = tmp_path_factory.mktemp("image")
    tools = directory / "tools"
    tools.mkdir()
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert uv, "`make setup` brings uv into the virtual environment"
    (tools / "uv").symlink_to(uv)
    target = directory / "opt"
    where = {"UV_PROJECT_ENVIRONMENT": str(target), "UV_PYTHON": sys.executable}
    perform(BUILD, directory / "src", tools, where)
    shutil.rmtree(directory / "src")  # the second stage has nothing of it
    return target
