"""`plimsoll demo` before a person: the picture, the keys, and a terminal that is left as it was found."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cli.command import PLIMSOLL, environment

pytestmark = pytest.mark.process
_SECONDS = 120.0


class Terminal:
    """What a person sees, and what they press."""

    def __init__(self, process: asyncio.subprocess.Process, end: int) -> None:
        self.process = process
        self._end = end
        self._seen = ""
        os.set_blocking(end, False)

    async def sees(self, text: str) -> None:
        """Wait until the text appears after what was seen before."""
        async with asyncio.timeout(_SECONDS):
            while text not in self._seen:
                await asyncio.sleep(0.05)
                try:
                    self._seen += os.read(self._end, 65536).decode(errors="replace")
                except BlockingIOError:
                    continue
        self._seen = self._seen.partition(text)[2]

    def press(self, key: str) -> None:
        os.write(self._end, key.encode())


@asynccontextmanager
async def watching(directory: Path) -> AsyncIterator[Terminal]:
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(theirs)
    process = await asyncio.create_subprocess_exec(
        str(PLIMSOLL), "demo", "--speed", "10", cwd=directory, env=environment(TERM="xterm"),
        stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    try:
        yield Terminal(process, ours)
        assert termios.tcgetattr(theirs) == before, "the terminal is left as it was found"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(ours)
        os.close(theirs)


async def test_keys_pause_change_the_speed_and_end_it(tmp_path: Path) -> None:
    async with watching(tmp_path) as terminal:
        await terminal.sees("zone a")
        await terminal.sees("quit")
        assert (tmp_path / "plimsoll-demo.kubeconfig").exists()
        terminal.press(" ")
        await terminal.sees("paused")
        terminal.press("f")
        await terminal.sees("×20")
        terminal.press("q")
        await terminal.sees("What happened")
        await terminal.sees("minutes of cluster life")
        assert await asyncio.wait_for(terminal.process.wait(), _SECONDS) == 0
    assert not (tmp_path / "plimsoll-demo.kubeconfig").exists()


async def test_keys_scale_and_reclaim(tmp_path: Path) -> None:
    async with watching(tmp_path) as terminal:
        await terminal.sees("of 15")
        terminal.press("+")
        await terminal.sees("of 18")
        terminal.press("-")
        await terminal.sees("of 15")
        terminal.press("r")
        await terminal.sees("draining")
        terminal.press("q")
        await terminal.sees("It was left in chapter")
        assert await asyncio.wait_for(terminal.process.wait(), _SECONDS) == 0


async def test_an_interrupt_ends_it_as_well(tmp_path: Path) -> None:
    async with watching(tmp_path) as terminal:
        await terminal.sees("quit")
        terminal.process.send_signal(signal.SIGINT)
        await terminal.sees("minutes of cluster life")
        assert await asyncio.wait_for(terminal.process.wait(), _SECONDS) == 0
