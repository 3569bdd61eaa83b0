"""Handles AdmissionReviews: decodes a review, decides it here or forwards it to the leader, and encodes the response.

`WebhookServer` calls `AdmissionHandler.begin`.
"""

from __future__ import annotations

import base64
import itertools
import uuid
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Struct

from plimsoll.controllers.placement.admission.classify import (
    AdmissionRequest,
    AdmissionResult,
    ClassAssigned,
    LiveReadKind,
    LiveReadNeeded,
    NotAssigned,
    PodClassifier,
)
from plimsoll.controllers.placement.annotations import PlacementReason
from plimsoll.kube.codec import decoder
from plimsoll.kube.types.meta import Part
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.decision import Counter
from plimsoll.webhook.live_reads import LiveReads, ReadResult

# Shares of the API server's time-out: the leader may read live for the first; a follower waits for the leader's response for the
# second, which leaves it time for a decision of its own.
LOOKING_SHARE = 0.4
FORWARDING_SHARE = 0.6
_OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})


class NotLeadingError(Exception):
    """A follower forwarded a review to this process, which does not lead."""


class ClientGoneError(Exception):
    """The client closed the connection, so no response can reach it."""


Deferred: TypeAlias = Callable[[], Awaitable[bytes]]  # a response that needs I/O first


class Forwarder(Protocol):
    async def ask(self, body: bytes) -> bytes | None:
        """The leader's response; None if there is none in time."""
        ...


class _Review(Part, frozen=True, gc=False):
    request: AdmissionRequest


class _Response(Struct, frozen=True, omit_defaults=True, rename="camel"):
    uid: str
    allowed: bool
    patch_type: str = ""
    patch: str = ""
    audit_annotations: dict[str, str] = {}


class _Answered(Struct, frozen=True, rename="camel"):
    response: _Response
    api_version: str = "admission.k8s.io/v1"
    kind: str = "AdmissionReview"


class AdmissionHandler:
    def __init__(
        self,
        admission: PodClassifier,
        looks: LiveReads,
        clock: Clock,
        *,
        look_seconds: float,
        leading: Callable[[], bool],
        forwarding: Forwarder | None,
        count: Callable[[Counter], None],
        nonce: str = "",
    ) -> None:
        """nonce: unique to this process; random by default."""
        self._admission = admission
        self._looks = looks
        self._clock = clock
        self._look_seconds = look_seconds
        self._leading = leading
        self._forwarding = forwarding
        self._count = count
        self._decode = decoder(_Review).decode
        self._encode = msgspec.json.Encoder().encode
        self._nonce = nonce or uuid.uuid4().hex[:8]  # tokens must differ between processes and between restarts
        self._serial = itertools.count(1)

    async def review(self, body: bytes) -> bytes:
        """The response to a review; `begin`, awaited if necessary."""
        answer = self.begin(body)
        return answer if isinstance(answer, bytes) else await answer()

    def begin(
        self, body: bytes, *, forwarded: bool = False, client_gone: Callable[[], bool] = lambda: False
    ) -> bytes | Deferred:
        """The response to a review, which always admits the pod, or a `Deferred` if it needs a live read or the leader.

        Most responses are immediate: a task per review would cost half as much as the decision. Raises ValueError if the body is
        not an AdmissionReview of a pod, NotLeadingError if a follower forwarded the review to a process that does not lead, and
        ClientGoneError if `client_gone` returns True right before the decision: a pod that starts without our response must not
        be counted as one that was classified.
        """
        try:
            request = self._decode(body).request
        except (msgspec.MsgspecError, RecursionError) as error:
            self._counted("", "unreadable")
            why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise ValueError(f"not an AdmissionReview of a pod: {why}") from None
        leading = self._leading()
        if forwarded and not leading:
            raise NotLeadingError
        if leading or self._admission.any_replica_can_answer(request):
            return self._decide(request, client_gone, approximate=False)
        if self._forwarding is None:
            return self._decide(request, client_gone, approximate=True)
        return partial(self._forward, body, self._forwarding, request, client_gone)

    async def _forward(
        self, body: bytes, forwarding: Forwarder, request: AdmissionRequest, client_gone: Callable[[], bool]
    ) -> bytes:
        answer = await forwarding.ask(body)
        if answer is not None:
            self._counted(request.operation, "forwarded")
            return answer
        own = self._decide(request, client_gone, approximate=True)
        return own if isinstance(own, bytes) else await own()

    def _decide(
        self, request: AdmissionRequest, client_gone: Callable[[], bool], *, approximate: bool
    ) -> bytes | Deferred:
        token = f"{self._nonce}-{next(self._serial):x}"
        answer = self._answer(request, client_gone, token, approximate=approximate)
        if isinstance(answer, LiveReadNeeded):
            return partial(self._look, answer, request, client_gone, token, approximate=approximate)
        return self._reply(request, answer)

    async def _look(
        self,
        answer: LiveReadNeeded,
        request: AdmissionRequest,
        client_gone: Callable[[], bool],
        token: str,
        *,
        approximate: bool,
    ) -> bytes:
        """Read live until the decision needs no further read."""
        since = self._clock.monotonic()
        deadline = since + self._look_seconds
        looked: set[LiveReadKind] = set()
        while True:
            result = await self._looks.look(answer, since=since, deadline=deadline)
            if result is not ReadResult.EARLIER:
                looked.add(answer.what)
            if result is ReadResult.FAILED:
                looked.update(LiveReadKind)  # no second wait: the API server's patience is short
                approximate = True
            next_answer = self._answer(request, client_gone, token, looked, approximate=approximate)
            if not isinstance(next_answer, LiveReadNeeded):
                return self._reply(request, next_answer)
            answer = next_answer

    def _answer(
        self,
        request: AdmissionRequest,
        client_gone: Callable[[], bool],
        token: str,
        looked: Collection[LiveReadKind] = (),
        *,
        approximate: bool,
    ) -> AdmissionResult:
        if client_gone():
            self._counted(request.operation, "too-late")
            raise ClientGoneError
        return self._admission.answer(
            request, self._clock.now(), self._clock.monotonic(), token=token, looked=looked, approximate=approximate
        )

    def _reply(self, request: AdmissionRequest, answer: ClassAssigned | NotAssigned) -> bytes:
        if isinstance(answer, NotAssigned):
            self._counted(request.operation, "left-alone")
            return self._encode(_Answered(_Response(request.uid, True, audit_annotations={"left-alone": answer.code})))
        assignment = answer.assignment
        self._counted(request.operation, "approximate" if assignment.why is PlacementReason.APPROXIMATE else "assigned")
        if not request.dry_run:
            labels = {"resource_kind": "Pod", "mutation_type": assignment.capacity_class.value}
            self._count(Counter("spotalis_webhook_mutations_total", labels))
        told = {"class": assignment.capacity_class.value, "reason": assignment.why.value}
        if not answer.patch:
            return self._encode(_Answered(_Response(request.uid, True, audit_annotations=told)))
        patch = base64.b64encode(self._encode(answer.patch)).decode()
        return self._encode(_Answered(_Response(request.uid, True, "JSONPatch", patch, told)))

    def _counted(self, operation: str, result: str) -> None:
        # Never the text of a request: each new label value is a series that stays.
        labels = {
            "operation": operation if operation in _OPERATIONS else "unknown",
            "resource_kind": "Pod",
            "result": result,
        }
        self._count(Counter("spotalis_webhook_requests_total", labels))
