"""`python -m tests.dashboard.browser.working`: an operator at work on an embedded cluster, and its dashboard.

It prints its address. A line that it is sent makes something happen: the number of a chapter of the demonstration's story, or
`speed 30`, the seconds that pass in one.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import click
from msgspec.structs import replace

from plimsoll.config import Dashboard as DashboardSection
from plimsoll.dashboard.service import dashboard_of
from plimsoll.embedded_cluster.clocks import ScaledClock
from plimsoll.runtime.logging import set_up_logging
from plimsoll.simulate.demo.chapters import CHAPTERS
from plimsoll.simulate.demo.player import DemoPlayer
from plimsoll.simulate.demo.scene import CONFIG
from plimsoll.simulate.world import World

_SPEED = 30.0


class Working:
    """The process, as a test holds it."""

    def __init__(self, process: subprocess.Popen[str], commands: IO[str], url: str) -> None:
        self.pid = process.pid
        self.url = url
        self._commands = commands

    def chapter(self, number: int) -> None:
        self._send(str(number))

    def speed(self, seconds_in_one: float) -> None:
        self._send(f"speed {seconds_in_one}")

    def _send(self, line: str) -> None:
        self._commands.write(f"{line}\n")
        self._commands.flush()


@contextmanager
def working() -> Iterator[Working]:
    command = [sys.executable, "-m", "tests.dashboard.browser.working"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url.startswith("http://"), "the process ended before it served anything"
            yield Working(process, process.stdin, url)
        finally:
            process.kill()


async def run() -> None:
    clock = ScaledClock(_SPEED)
    async with World(replace(CONFIG, dashboard=DashboardSection(port=0)), clock) as world:
        await DemoPlayer(world, CHAPTERS).prepare()
        process = world.operator_process
        async with dashboard_of(process.operator, world.config, process.client, clock, "test") as server:
            assert server is not None
            click.echo(server.url)
            while line := await asyncio.to_thread(sys.stdin.readline):
                match line.split():
                    case ["speed", factor]:
                        clock.speed = float(factor)
                    case [number]:
                        await CHAPTERS[int(number)].action(world)


if __name__ == "__main__":
    set_up_logging("warning", "console")
    asyncio.run(run())
