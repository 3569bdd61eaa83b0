"""What all tests share: the real control plane, and hypothesis settled so that a failure in CI can be repeated anywhere."""

from __future__ import annotations

import os
from fnmatch import fnmatch

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.rights.everywhere", "tests.realcluster", "tests.helm"]

# Seconds each rather than milliseconds: apart from the unit tests, which people run after every change.
HISTORIES = ("*/tests/model/*", "*/tests/simulation/*", "*_histories.py", "*_in_the_model.py")


# First, because the selection by `-m` is made by the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(fnmatch(str(item.path), pattern) for pattern in HISTORIES):
            item.add_marker("history")


settings.register_profile(
    "plimsoll",
    deadline=None,  # the machines are shared and noisy: a slow example is no failure
    derandomize=os.environ.get("CI", "").lower() == "true",
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    print_blob=True,
)
settings.load_profile("plimsoll")
