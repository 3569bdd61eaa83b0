"""The webhook as a process of its own, over a view that lives: every admitted pod appears, and an older one leaves."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import structlog

from benchmarks.webhook.objects import RUNNING, WORKLOADS, pod, view
from plimsoll.clock import RealClock
from plimsoll.kube.codec import convert
from plimsoll.kube.garbage import postpone_full_collections, settle_garbage
from plimsoll.kube.resources import PODS
from plimsoll.kube.types import Pod
from plimsoll.metrics import Metrics
from plimsoll.placement.admission import Admission
from plimsoll.placement.settings import PlacementSettings
from plimsoll.web.admissions import Admissions
from plimsoll.web.certificates import make_certificate, serving_context
from plimsoll.web.live_looks import LiveLooks
from plimsoll.web.webhook import WebhookServer

_LAG_SECONDS = 0.02  # of a watch behind what was written


class Living(Admissions):
    """What the API server and the watch would do with each answer."""

    def live_in(self, pods: Any) -> None:
        self._pods = pods
        self._present = {
            workload: deque(f"app-{workload}-{number}" for number in range(RUNNING)) for workload in range(WORKLOADS)
        }

    async def review(self, body: bytes, *, forwarded: bool = False) -> bytes:
        answer = await super().review(body, forwarded=forwarded)
        asyncio.get_running_loop().call_later(_LAG_SECONDS, self._appear, body, answer)
        return answer

    def _appear(self, body: bytes, answer: bytes) -> None:
        request = msgspec.json.decode(body)["request"]
        patch = json.loads(base64.b64decode(msgspec.json.decode(answer)["response"]["patch"]))
        marks = {
            op["path"].rsplit("/", 1)[1].replace("~1", "/"): op["value"] for op in patch if "annotations/" in op["path"]
        }
        workload = int(request["object"]["metadata"]["labels"]["app"].removeprefix("app-"))
        name = f"app-{workload}-{request['uid']}"
        self._pods.put(convert(pod(workload, name, annotations=marks), Pod))
        present = self._present[workload]
        present.append(name)
        self._pods.remove(f"team-{workload % 50}", present.popleft())


async def main(directory: Path) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(20))
    postpone_full_collections()
    seen, clock, metrics = view(), RealClock(), Metrics()
    admission = Admission(seen, PlacementSettings())
    authority, certificate, key = make_certificate(["127.0.0.1"], datetime.now(UTC))
    unused: Any = None  # nothing is read live here: every owner is in view, and never complete
    admissions = Living(
        admission, LiveLooks(unused, admission, clock, seconds=1.0), clock, look_seconds=1.0,
        leading=lambda: True, forwarding=None, count=lambda one: metrics.count((one,)),
    )  # fmt: skip
    admissions.live_in(seen[PODS])
    settle_garbage()
    async with WebhookServer("127.0.0.1", 0, serving_context(certificate, key), admissions) as server:
        (directory / "ca.pem").write_bytes(authority)
        (directory / "port").write_text(str(server.port))
        await asyncio.to_thread(sys.stdin.read)  # until the other end closes it
    (directory / "cpu").write_text(str(time.process_time()))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
