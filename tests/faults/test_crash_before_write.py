"""Fault 1: the operator dies before a write is sent, at each write in turn. What was half done is finished by the next life."""

from __future__ import annotations

from tests.faults.crashes import NewScene, crash_at_every_write
from tests.faults.faults import CrashBefore


async def test_a_crash_before_each_write(new_scene: NewScene) -> None:
    await crash_at_every_write(new_scene, CrashBefore())
