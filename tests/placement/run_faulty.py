"""The operator with the placement controller as a process of its own, to be stopped and resumed.

Usage: python -m tests.placement.run_faulty KUBECONFIG INSTALLATION/HOME/NAMESPACE
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.logging import set_up_logging
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import Operator, connect, identity
from tests.placement.faulty import SHORT_LEASE, controllers_of, settings_in


async def _run(kubeconfig: Path, place: str) -> int:
    installation, home, namespace = place.split("/")
    settings, metrics, stop = settings_in(home, namespace, election=SHORT_LEASE), Metrics(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with connect(settings, metrics, kubeconfig=kubeconfig, context=None) as client:
        made = controllers_of(installation, settings)
        operator = Operator(settings, client, made, clock=RealClock(), metrics=metrics, name=identity())
        return await operator.run(stop)


if __name__ == "__main__":
    set_up_logging("debug", "json")
    sys.exit(asyncio.run(_run(Path(sys.argv[1]), sys.argv[2])))
