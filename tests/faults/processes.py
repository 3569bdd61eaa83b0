"""The operator as a process that a test can stop in its tracks (SIGSTOP), resume, kill and ask for its exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.faults.proxy import Link, Proxy


class OperatorProcess:
    """One process behind one link; killed, if it still lives, when the test is over."""

    def __init__(self, link: Link, namespace: str, log: Path) -> None:
        self.link = link
        self._namespace = namespace
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    @classmethod
    async def start(cls, proxy: Proxy, name: str, namespace: str, *, module: str = "tests.faults.run_example") -> Self:
        link = await proxy.link(name)
        one = cls(link, namespace, link.kubeconfig.with_suffix(".log"))
        with one._log.open("wb") as log:
            one._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", module, str(link.kubeconfig), namespace, stderr=log
            )
        link.on_crash = lambda: one._send(signal.SIGKILL)
        return one

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(f"the operator {self.link.name} said:\n{self._log.read_text()[-8000:]}")
        self._send(signal.SIGKILL)
        await self.exit_code()

    def check_alive(self) -> bool:
        """True, or a failure at once instead of a wait for something that a dead process will never do."""
        assert self._process is not None
        assert self._process.returncode is None, f"the operator {self.link.name} has ended: {self._process.returncode}"
        return True

    def pause(self) -> None:
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    async def stop(self) -> int:
        self._send(signal.SIGTERM)
        return await self.exit_code()

    async def exit_code(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            # Between its end and the loop's learning of it there is nobody to send to.
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)
