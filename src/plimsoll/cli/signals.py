"""Signal handling: the first signal stops the operator gracefully, the second ends the process at once."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from plimsoll.runtime.exit_codes import ExitCode

log = structlog.get_logger()

STOP_SECONDS = 10.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SIGNALLED, _DONE = b"s", b"d"


@contextmanager
def stop_on_signals(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> Iterator[None]:
    """Set `stop` on the first signal, and end the process if the block does not end within STOP_SECONDS.

    Plain signal handlers, not the loop's, also run while a callback blocks the loop. They interrupt the main thread anywhere,
    so they must not take a lock (starting a thread would): they wake a thread that already runs.
    """
    hear, tell = os.pipe()
    watchdog = threading.Thread(target=_end_in_time, args=(hear,), name="stop in time", daemon=True)
    asked = False

    def handle(number: int, _: object) -> None:
        nonlocal asked
        if asked:
            os.write(2, b"second signal: exiting at once\n")
            os._exit(128 + number)
        asked = True
        os.write(tell, _SIGNALLED)
        if not loop.is_closed():
            loop.call_soon_threadsafe(ask, signal.Signals(number).name)

    def ask(name: str) -> None:
        log.info("signal received, stopping", signal=name, within_seconds=STOP_SECONDS)
        stop.set()

    watchdog.start()
    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.write(tell, _DONE)
        watchdog.join()
        os.close(hear)
        os.close(tell)


def _end_in_time(hear: int) -> None:
    if os.read(hear, 1) == _DONE or select.select([hear], [], [], STOP_SECONDS)[0]:
        return
    # End the process even if logging blocks.
    threading.Timer(1.0, os._exit, (ExitCode.UNEXPECTED_ERROR,)).start()
    log.error("did not stop in time; exiting", seconds=STOP_SECONDS)
    os._exit(ExitCode.UNEXPECTED_ERROR)
