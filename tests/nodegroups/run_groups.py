"""The operator with the node groups as a process of its own, to be stopped and resumed.

Usage: python -m tests.nodegroups.run_groups KUBECONFIG NAMESPACE
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from plimsoll.runtime.logging import set_up_logging
from plimsoll.runtime.operator import identity
from tests.nodegroups.live import SHORT_LEASE, config, operating_with


async def _run(kubeconfig: Path, namespace: str) -> int:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = config(namespace, election=SHORT_LEASE)
    async with operating_with(kubeconfig, settings, name=identity(), stop=stop) as running:
        code: int = await running.life
        return code


if __name__ == "__main__":
    set_up_logging("debug", "json")
    sys.exit(asyncio.run(_run(Path(sys.argv[1]), sys.argv[2])))
