"""From the bytes of an AdmissionReview to the bytes of its answer: decided here, or by the leader."""

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
    Admission,
    Answer,
    Assigned,
    LeftAlone,
    Look,
    Request,
    What,
)
from plimsoll.controllers.placement.annotations import Why
from plimsoll.kube.codec import decoder
from plimsoll.kube.types.core import Part
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.decision import Counter
from plimsoll.webhook.live_reads import LiveLooks, Result

# Of the time that the API server waits: the leader may look for so long, a follower waits a little longer for the leader's
# answer, and then there is still time for one of its own.
LOOKING_SHARE = 0.4
FORWARDING_SHARE = 0.6


class NotLeadingError(Exception):
    """A request that was forwarded to us is not ours to decide."""


class AskerLeftError(Exception):
    """Whoever asked waits no longer, so that no answer would reach it."""


Later: TypeAlias = Callable[[], Awaitable[bytes]]  # to be called, and waited for


class Forwarding(Protocol):
    async def ask(self, body: bytes) -> bytes | None:
        """The leader's answer; None if it cannot be had in time."""
        ...


class _Review(Part, frozen=True, gc=False):
    request: Request


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


class Admissions:
    def __init__(
        self,
        admission: Admission,
        looks: LiveLooks,
        clock: Clock,
        *,
        look_seconds: float,
        leading: Callable[[], bool],
        forwarding: Forwarding | None,
        count: Callable[[Counter], None],
        nonce: str = "",
    ) -> None:
        """nonce: of this life of this process; made up where none is given."""
        self._admission = admission
        self._looks = looks
        self._clock = clock
        self._look_seconds = look_seconds
        self._leading = leading
        self._forwarding = forwarding
        self._count = count
        self._decode = decoder(_Review).decode
        self._encode = msgspec.json.Encoder().encode
        self._nonce = nonce or uuid.uuid4().hex[:8]  # tokens of two processes, or of two lives of one, must differ
        self._serial = itertools.count(1)

    async def review(self, body: bytes) -> bytes:
        """`begin`, and wait where that is needed."""
        answer = self.begin(body)
        return answer if isinstance(answer, bytes) else await answer()

    def begin(
        self, body: bytes, *, forwarded: bool = False, asker_left: Callable[[], bool] = lambda: False
    ) -> bytes | Later:
        """Always an answer that admits the pod; NotLeadingError only to a replica of ours that asked in vain.

        At once, unless somebody else must be asked first: a task and a turn of the event loop for each question would cost as
        much as half of the decision. ValueError where the body is no AdmissionReview of a pod. `asker_left` is asked right
        before the answer is made, and AskerLeftError raised: a pod that starts without us must not be counted as one that we
        admitted.
        """
        try:
            request = self._decode(body).request
        except msgspec.MsgspecError as error:
            self._counted("", "unreadable")
            raise ValueError(f"not an AdmissionReview of a pod: {error}") from error
        leading = self._leading()
        if forwarded and not leading:
            raise NotLeadingError
        if leading or self._admission.decided_alone(request):
            return self._decide(request, asker_left, approximate=False)
        if self._forwarding is None:
            return self._decide(request, asker_left, approximate=True)
        return partial(self._forward, body, self._forwarding, request, asker_left)

    async def _forward(
        self, body: bytes, forwarding: Forwarding, request: Request, asker_left: Callable[[], bool]
    ) -> bytes:
        answer = await forwarding.ask(body)
        if answer is not None:
            self._counted(request.operation, "forwarded")
            return answer
        own = self._decide(request, asker_left, approximate=True)
        return own if isinstance(own, bytes) else await own()

    def _decide(self, request: Request, asker_left: Callable[[], bool], *, approximate: bool) -> bytes | Later:
        token = f"{self._nonce}-{next(self._serial):x}"
        answer = self._answer(request, asker_left, token, approximate=approximate)
        if isinstance(answer, Look):
            return partial(self._look, answer, request, asker_left, token, approximate=approximate)
        return self._reply(request, answer)

    async def _look(
        self, answer: Look, request: Request, asker_left: Callable[[], bool], token: str, *, approximate: bool
    ) -> bytes:
        """Read live, as often as an answer wants something else read."""
        since = self._clock.monotonic()
        deadline = since + self._look_seconds
        looked: set[What] = set()
        while True:
            result = await self._looks.look(answer, since=since, deadline=deadline)
            if result is not Result.EARLIER:
                looked.add(answer.what)
            if result is Result.FAILED:
                looked.update(What)  # no second wait: the API server's patience is short
                approximate = True
            next_answer = self._answer(request, asker_left, token, looked, approximate=approximate)
            if not isinstance(next_answer, Look):
                return self._reply(request, next_answer)
            answer = next_answer

    def _answer(
        self,
        request: Request,
        asker_left: Callable[[], bool],
        token: str,
        looked: Collection[What] = (),
        *,
        approximate: bool,
    ) -> Answer:
        if asker_left():
            self._counted(request.operation, "too-late")
            raise AskerLeftError
        return self._admission.answer(
            request, self._clock.now(), self._clock.monotonic(), token=token, looked=looked, approximate=approximate
        )

    def _reply(self, request: Request, answer: Assigned | LeftAlone) -> bytes:
        if isinstance(answer, LeftAlone):
            self._counted(request.operation, "left-alone")
            return self._encode(_Answered(_Response(request.uid, True, audit_annotations={"left-alone": answer.code})))
        marks = answer.marks
        self._counted(request.operation, "approximate" if marks.why is Why.APPROXIMATE else "assigned")
        if not request.dry_run:
            labels = {"resource_kind": "Pod", "mutation_type": marks.capacity_class.value}
            self._count(Counter("spotalis_webhook_mutations_total", labels))
        told = {"class": marks.capacity_class.value, "reason": marks.why.value}
        if not answer.patch:
            return self._encode(_Answered(_Response(request.uid, True, audit_annotations=told)))
        patch = base64.b64encode(self._encode(answer.patch)).decode()
        return self._encode(_Answered(_Response(request.uid, True, "JSONPatch", patch, told)))

    def _counted(self, operation: str, result: str) -> None:
        labels = {"operation": operation or "unknown", "resource_kind": "Pod", "result": result}
        self._count(Counter("spotalis_webhook_requests_total", labels))
