"""promtool as built from Prometheus' Go module; in CI, a machine without it is a failure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.controlplane.gobuild import GoBuildError
from tools.promtool import promtool as build_promtool


@pytest.fixture(scope="session")
def promtool() -> Path:
    try:
        return build_promtool()
    except GoBuildError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
