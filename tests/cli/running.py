"""`plimsoll run` as a process, with its log as data."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.cli.command import PLIMSOLL, environment
from tests.eventually import eventually

STOP_SECONDS_AT_MOST = 60.0  # far more than it takes: whether ten are enough is for benchmarks, not for busy machines


class Running:
    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self._log = log

    def records(self) -> list[dict[str, Any]]:
        lines = self._log.read_text("utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def record(self, event: str) -> dict[str, Any] | None:
        return next((record for record in self.records() if record["event"] == event), None)

    async def logged(self, event: str) -> dict[str, Any]:
        def ended_or_logged() -> dict[str, Any] | bool | None:
            return self.record(event) or self.process.returncode is not None

        await eventually(ended_or_logged, f"the record {event!r}")
        record = self.record(event)
        assert record, self._log.read_text("utf-8")
        return record

    async def answer(self, path: str) -> tuple[int, str]:
        port = (await self.logged("serving health and metrics"))["port"]
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as response:
            return response.status, await response.text()

    async def ready(self) -> None:
        async def is_ready() -> bool:
            return (await self.answer("/readyz"))[0] == 200

        await eventually(is_ready, "readiness")

    async def exit_code(self) -> int:
        return await asyncio.wait_for(self.process.wait(), STOP_SECONDS_AT_MOST)


@asynccontextmanager
async def running(directory: Path, *arguments: str, **variables: str) -> AsyncIterator[Running]:
    """The operator on any free port, with a JSON log. It is ended with the block, in any case."""
    log, audit = directory / "log.jsonl", directory / "audit.jsonl"
    with log.open("wb") as log_sink, audit.open("wb") as audit_sink:
        process = await asyncio.create_subprocess_exec(
            str(PLIMSOLL), "run", "--log-format", "json", "--set", "web.port=0", "--set", "dashboard.port=0",
            *arguments,
            stdin=asyncio.subprocess.DEVNULL, stdout=audit_sink, stderr=log_sink, env=environment(**variables),
        )  # fmt: skip
    try:
        yield Running(process, log)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
