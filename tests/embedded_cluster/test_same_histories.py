"""The same seed gives the same history, byte for byte, in whatever process."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import zip_longest

import pytest


def _told(seed: int, hash_seed: str) -> list[bytes]:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.embedded_cluster.print_history", str(seed), "10"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()[-2000:]
    return ran.stdout.splitlines()


@pytest.mark.parametrize("seed", [4, 9], ids=["storage and faults", "node groups and rivals"])
def test_two_processes_tell_the_same_history(seed: int) -> None:
    first, second = _told(seed, "1"), _told(seed, "2")
    for one, other in zip_longest(first, second):
        assert one == other
    assert len(first) > 200, "a history in which nothing happens shows nothing"
