"""The webhook as a process of its own, over a view that lives: every admitted pod appears, and an older one leaves."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import structlog
from msgspec.structs import replace

from benchmarks.webhook.objects import RUNNING, WORKLOADS, view
from plimsoll.controllers.placement.admission.classify import PodClassifier
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.kube.codec import decoder
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.meta import Part
from plimsoll.kube.types.resources import PODS
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.gc_tuning import collect_and_freeze, disable_automatic_full_gc
from plimsoll.runtime.metrics import Metrics
from plimsoll.webhook.admission_handler import AdmissionHandler
from plimsoll.webhook.certificates import make_certificate, serving_context
from plimsoll.webhook.live_reads import LiveReads
from plimsoll.webhook.server import WebhookServer

_LAG_SECONDS = 0.02  # of a watch behind what was written


class Living(AdmissionHandler):
    """What the API server and the watch would do with each answer."""

    def live_in(self, pods: Any) -> None:
        self._pods = pods
        self._present = {
            workload: deque(f"app-{workload}-{number}" for number in range(RUNNING)) for workload in range(WORKLOADS)
        }

    def begin(self, body: bytes, *, forwarded: bool = False, client_gone: Callable[[], bool] = lambda: False) -> bytes:
        answer = super().begin(body, forwarded=forwarded, client_gone=client_gone)
        assert isinstance(answer, bytes)  # nothing is read live here
        asyncio.get_running_loop().call_later(_LAG_SECONDS, self._appear, body, answer)
        return answer

    def _appear(self, body: bytes, answer: bytes) -> None:
        """As cheap as a reflector does it, so that what is measured is the webhook's own."""
        request = _asked.decode(body).request
        patch = msgspec.json.decode(base64.b64decode(_answered.decode(answer).response.patch))
        assignment = {
            op["path"].rsplit("/", 1)[1].replace("~1", "/"): op["value"] for op in patch if "annotations/" in op["path"]
        }
        created = request.object
        workload = int(created.labels["app"].removeprefix("app-"))
        name = f"app-{workload}-{request.uid}"
        metadata = replace(created.metadata, name=name, uid=name, annotations={**created.annotations, **assignment})
        self._pods.put(replace(created, metadata=metadata))
        present = self._present[workload]
        present.append(name)
        self._pods.remove(created.namespace, present.popleft())


class _Request(Part, frozen=True):
    uid: str
    object: Pod


class _Asked(Part, frozen=True):
    request: _Request


class _Response(Part, frozen=True):
    patch: str


class _Answered(Part, frozen=True):
    response: _Response


_asked, _answered = decoder(_Asked), decoder(_Answered)


async def main(directory: Path) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(20))
    disable_automatic_full_gc()
    seen, clock, metrics = view(), RealClock(), Metrics()
    admission = PodClassifier(seen, PlacementSettings())
    authority, certificate, key = make_certificate(["127.0.0.1"], datetime.now(UTC))
    unused: Any = None  # nothing is read live here: every owner is in view, and never complete
    admissions = Living(
        admission, LiveReads(unused, admission, clock, seconds=1.0), clock, look_seconds=1.0,
        leading=lambda: True, forwarding=None, count=lambda one: metrics.count((one,)),
    )  # fmt: skip
    admissions.live_in(seen[PODS])
    collect_and_freeze()
    async with WebhookServer("127.0.0.1", 0, serving_context(certificate, key), admissions) as server:
        (directory / "ca.pem").write_bytes(authority)
        (directory / "port").write_text(str(server.port))
        await asyncio.to_thread(sys.stdin.read)  # until the other end closes it


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
