"""Requests that follow from replies, as data, and the small driver that holds such a conversation.

A conversation is a pure function `(state, reply) → (state, request)`. It begins with `Opened` and is over when it
answers with an `End`. The driver only carries: it decides nothing, and whoever checks a conversation (a test, a model
checker) can put himself in its place. What time it is, and what is random, comes with the replies.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import KubeError, NotFound
from plimsoll.kube.types.core import KubeObject
from plimsoll.kube.types.resources import Resource
from plimsoll.providers.protocol import Machine
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.decision import Blocker, Create, CreateMachine, Delete, DeleteMachine, Event, Patch, Transaction

# ── what a conversation asks ─────────────────────────────────────────────────────────────────────────────────────────


class Get(Struct, frozen=True):
    """Read one object live."""

    resource: Resource[Any]
    namespace: str
    name: str


class ListAll(Struct, frozen=True):
    """Read all objects of a kind live, in one namespace or in all."""

    resource: Resource[Any]
    namespace: str = ""
    field_selector: str = ""


Write: TypeAlias = Patch | Create | Delete | CreateMachine | DeleteMachine


class Together(Struct, frozen=True):
    """Writes that do not depend on one another and are under way at the same time."""

    writes: tuple[Write, ...]


Status: TypeAlias = Literal["done", "would", "refused", "gone", "conflict", "failed", "unknown"]


class End(Struct, frozen=True):
    """The conversation is over; the words are those of the door."""

    status: Status = "done"
    detail: str = ""
    blocker: Blocker | None = None
    events: tuple[Event, ...] = ()


Request: TypeAlias = Get | ListAll | Together | End

# ── what it is answered ──────────────────────────────────────────────────────────────────────────────────────────────


class Moment(Struct, frozen=True):
    now: datetime  # for people to read; it may jump
    at: float  # monotonic seconds, to measure with


class Opened(Struct, frozen=True):
    moment: Moment
    token: str  # that no other conversation has


class Found(Struct, frozen=True):
    moment: Moment
    item: KubeObject | None  # None: there is no such object


class Listed(Struct, frozen=True):
    moment: Moment
    items: tuple[KubeObject, ...]


class Answer(Struct, frozen=True):
    """What became of one write."""

    status: Status
    item: KubeObject | None = None  # as it is after the write, where that is known
    detail: str = ""
    machine: Machine | None = None  # that a provider has made
    code: str = ""  # of what stood in the way


class Answered(Struct, frozen=True):
    moment: Moment
    answers: tuple[Answer, ...]  # in the order of the writes


class Unread(Struct, frozen=True):
    """A read that failed: nothing is known."""

    moment: Moment
    detail: str


Reply: TypeAlias = Opened | Found | Listed | Answered | Unread

# ── the driver ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Writes(Protocol):
    """The door: carries out writes as it carries out all others, and says what became of each."""

    def __call__(self, writes: tuple[Write, ...], /) -> Awaitable[tuple[Answer, ...]]: ...


def new_token() -> str:
    return uuid.uuid4().hex


async def converse(
    conversation: Transaction, client: Client, write: Writes, clock: Clock, token: Callable[[], str] = new_token
) -> End:
    """Hold a conversation to its end."""

    def moment() -> Moment:
        return Moment(clock.now(), clock.monotonic())

    state, request = conversation.step(conversation.start, Opened(moment(), token()))
    try:
        while not isinstance(request, End):
            reply: Reply
            if isinstance(request, Together):
                answers = await write(request.writes)
                reply = Answered(moment(), answers)
            else:
                reply = await _read(request, client, moment)
            state, request = conversation.step(state, reply)
        return request
    finally:
        conversation.ended(state)


async def _read(request: Get | ListAll, client: Client, moment: Callable[[], Moment]) -> Reply:
    try:
        if isinstance(request, ListAll):
            listing = await client.list(request.resource, request.namespace, field_selector=request.field_selector)
            return Listed(moment(), listing.items)
        try:
            item = await client.get(request.resource, request.namespace, request.name)
        except NotFound:
            item = None
        return Found(moment(), item)
    except KubeError as error:
        return Unread(moment(), str(error))
