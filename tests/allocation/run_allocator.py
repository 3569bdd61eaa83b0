"""The real operator with the allocation controller as a process of its own, to be stopped, resumed and killed.

Nobody is elected: two of them fight for the same nodes, and only the leases of the nodes stand between them.

Usage: python -m tests.allocation.run_allocator KUBECONFIG NAMESPACE
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from plimsoll.controllers.allocation.controller import AllocationController
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.logging import set_up_logging
from plimsoll.runtime.metrics import Metrics
from plimsoll.runtime.operator import Operator, connect, identity
from tests.allocation.environment import SHORT_LEASE, config, settings


async def _run(kubeconfig: Path, namespace: str) -> int:
    made, metrics, stop = config(namespace), Metrics(), asyncio.Event()
    controller = AllocationController(settings(namespace, times=SHORT_LEASE), nonce=identity())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with connect(made, metrics, kubeconfig=kubeconfig, context=None) as client:
        operator = Operator(made, client, [controller], clock=RealClock(), metrics=metrics, name=identity())
        return await operator.run(stop)


if __name__ == "__main__":
    set_up_logging("info", "json")
    sys.exit(asyncio.run(_run(Path(sys.argv[1]), sys.argv[2])))
