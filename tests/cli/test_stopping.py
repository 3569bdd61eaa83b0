"""Signals: asked once, the process stops in good order; asked twice, at once; and never later than it may."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import pytest

from plimsoll.cli.signals import STOP_SECONDS, stop_on_signals
from plimsoll.kube.events import FLUSH_SECONDS
from plimsoll.kube.leader_election import RELEASE_SECONDS
from plimsoll.runtime.exit_codes import ExitCode
from plimsoll.runtime.operator import DRAIN_SECONDS

pytestmark = pytest.mark.process

# A process that waits for its stop like the operator does. `{stuck}` is what it is busy with.
PROCESS = """
import asyncio, time
from plimsoll.cli import signals
from plimsoll.runtime.logging import set_up_logging
set_up_logging("info", "console")
signals.STOP_SECONDS = {allowed}
async def main(stop):
    print("ready", flush=True)
    {stuck}
    await stop.wait()
    print("stopped", flush=True)
stop, runner = asyncio.Event(), asyncio.Runner()
with signals.stop_on_signals(runner.get_loop(), stop), runner:
    runner.run(main(stop))
    {afterwards}
"""
FOR_EVER = "[time.sleep(0.01) for _ in iter(int, 1)]"  # the event loop never turns again


def start(stuck: str = "pass", *, afterwards: str = "pass", allowed: float = 60) -> subprocess.Popen[str]:
    code = PROCESS.format(stuck=stuck, afterwards=afterwards, allowed=allowed)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_for_a_stop(number: signal.Signals) -> None:
    process = start()
    process.send_signal(number)
    code, out, err = end(process)
    assert (code, out) == (0, "stopped\n")
    assert f"signal={number.name}" in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once_whatever_keeps_the_process(number: signal.Signals) -> None:
    process = start(FOR_EVER)
    # Signals of one kind that are pending together count as one, so two may not be enough.
    while process.poll() is None:
        process.send_signal(number)
    code, out, err = end(process)
    assert code == 128 + number
    assert out == ""
    assert "second signal" in err


def test_a_process_that_does_not_stop_in_time_is_ended() -> None:
    process = start(FOR_EVER, allowed=0.2)
    process.send_signal(signal.SIGTERM)
    code, out, err = end(process)
    assert code == ExitCode.UNEXPECTED_ERROR
    assert out == ""
    assert "did not stop in time" in err


def test_so_is_one_that_hangs_after_its_work_is_done() -> None:
    process = start(afterwards=FOR_EVER, allowed=0.2)
    process.send_signal(signal.SIGTERM)
    code, out, err = end(process)
    assert (code, out) == (ExitCode.UNEXPECTED_ERROR, "stopped\n")
    assert "did not stop in time" in err


def test_afterwards_the_handlers_are_as_they_were() -> None:
    before = signal.getsignal(signal.SIGTERM)
    stop, runner = asyncio.Event(), asyncio.Runner()
    with stop_on_signals(runner.get_loop(), stop), runner:
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
    assert not stop.is_set()


def test_every_wait_of_a_stop_together_fits_into_the_time_it_has() -> None:
    """Against a server that has fallen silent each of them lasts to its end; a second is left for all else."""
    assert DRAIN_SECONDS + RELEASE_SECONDS + FLUSH_SECONDS <= STOP_SECONDS - 1
