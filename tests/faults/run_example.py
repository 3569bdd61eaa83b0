"""The real operator with the example controller as a process of its own, to be stopped, resumed and killed.

Usage: python -m tests.faults.run_example KUBECONFIG NAMESPACE
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
from tests.faults.example import ExampleController
from tests.faults.runs import SHORT_LEASE, config


async def _run(kubeconfig: Path, namespace: str) -> int:
    settings, metrics, stop = config(namespace, election=SHORT_LEASE), Metrics(), asyncio.Event()
    controllers = [ExampleController(namespace)]
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with connect(settings, metrics, kubeconfig=kubeconfig, context=None) as client:
        operator = Operator(settings, client, controllers, clock=RealClock(), metrics=metrics, name=identity())
        return await operator.run(stop)


if __name__ == "__main__":
    set_up_logging("debug", "json")
    sys.exit(asyncio.run(_run(Path(sys.argv[1]), sys.argv[2])))
