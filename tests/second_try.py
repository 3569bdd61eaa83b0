"""A wait on the real control plane that ran out is waited for once more; a wrong answer is not.

On a shared machine a deadline that passed says either that what was waited for never comes, or that the machine did not run us for
minutes; only a second try can tell. `pytest --rerun-show-tracebacks` prints the first failure in full, so that it is seen; more
than a few in one run are a failure in themselves (`--max-suite-reruns`).
"""

from __future__ import annotations

import subprocess

import pytest

from tests.eventually import NeverCameError

_OF_PYTEST_TIMEOUT = "Timeout (>"


def ran_out(error: BaseException | None) -> bool:
    """Whether nothing but a wait has failed."""
    if isinstance(error, BaseExceptionGroup):
        return all(ran_out(one) for one in error.exceptions)
    if isinstance(error, pytest.fail.Exception):
        return (error.msg or "").startswith(_OF_PYTEST_TIMEOUT)
    return isinstance(error, NeverCameError | TimeoutError | subprocess.TimeoutExpired)


# Last, because others mark in the same hook what is real.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # A campaign of hours looks for what happens rarely: there every failure counts.
        if item.get_closest_marker("real") and not item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.flaky(reruns=1, condition=ran_out))
