"""Fault 2: the operator dies when a write is applied and its reply not yet read, at each write in turn."""

from __future__ import annotations

from tests.faults.crashes import NewScene, crash_at_every_write
from tests.faults.faults import CrashAfter


async def test_a_crash_after_each_write(new_scene: NewScene) -> None:
    await crash_at_every_write(new_scene, CrashAfter())
