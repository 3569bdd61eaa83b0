"""Helm as built from its Go module; in CI, a machine without it is a failure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.controlplane.gobuild import GoBuildError
from tools.helm import helm as build_helm


@pytest.fixture(scope="session")
def helm() -> Path:
    try:
        return build_helm()
    except GoBuildError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
