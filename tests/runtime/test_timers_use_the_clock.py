"""Timers of the operator run on the injected clock: a timer in real seconds breaks the demo and every simulation."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import pytest

import plimsoll
from plimsoll.embedded_cluster.clocks import ScaledClock
from plimsoll.runtime.clock import wait_on_clock

SOURCE = Path(plimsoll.__file__).parent
OPERATOR = ("kube", "runtime", "disruption", "scheduling", "controllers", "providers")
# Real time on purpose: the clock itself, the durations of calls that a person sees in metrics, and limits of real I/O.
ALLOWED = {
    "runtime/clock.py": {"asyncio.sleep", "time.monotonic", "time.clock_gettime", "datetime.now"},
    "controllers/allocation/controller.py": {
        "datetime.now"
    },  # a default that `controllers.build` replaces by the clock
}


def timers(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        name, owner = node.func.attr, ast.unparse(node.func.value)
        yields = node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
        if name in ("call_later", "call_at") or (owner, name) in (
            ("time", "monotonic"),
            ("time", "time"),
            ("time", "clock_gettime"),
            ("datetime", "now"),
        ):
            found.add(f"{owner}.{name}" if owner in ("time", "datetime") else name)
        elif owner == "asyncio" and name == "sleep" and not yields:
            found.add("asyncio.sleep")
        elif name == "time" and "loop" in owner:
            found.add("loop.time")
    return found


@pytest.mark.parametrize("package", OPERATOR)
def test_no_timer_in_real_seconds(package: str):
    found = {}
    for path in sorted((SOURCE / package).rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if left := timers(path) - ALLOWED.get(name, set()):
            found[name] = left
    assert found == {}


async def test_a_time_out_on_the_clock():
    with pytest.raises(TimeoutError):
        await wait_on_clock(ScaledClock(36_000), asyncio.Event().wait(), 3600)  # a tenth of a second


async def test_a_result_before_the_time_out():
    async def work() -> int:
        return 7

    assert await wait_on_clock(ScaledClock(1), work(), 60) == 7
    assert await wait_on_clock(ScaledClock(1), work(), None) == 7
