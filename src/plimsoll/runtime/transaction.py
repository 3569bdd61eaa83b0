"""Transactions: requests that follow from replies, as data, and the driver that runs them for the actuator.

A transaction is a function `(state, reply) → (state, request)`, deterministic and without I/O. It starts with
`TransactionStarted` and ends when it returns an `End`. The driver decides nothing, so a test or a model checker can take its
place. The time and anything random come with the replies.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import KubeError, NotFound
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import Resource
from plimsoll.providers.protocol import Machine
from plimsoll.runtime.clock import Clock
from plimsoll.runtime.decision import Blocker, Create, CreateMachine, Delete, DeleteMachine, Event, Patch, Transaction
from plimsoll.runtime.outcome import Status

# ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────────


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


class ConcurrentWrites(Struct, frozen=True):
    """Independent writes that run at the same time."""

    writes: tuple[Write, ...]


class End(Struct, frozen=True):
    """The end of the transaction, with the status that the actuator reports."""

    status: Status = "done"
    detail: str = ""
    blocker: Blocker | None = None
    events: tuple[Event, ...] = ()


TransactionRequest: TypeAlias = Get | ListAll | ConcurrentWrites | End

# ── replies ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Moment(Struct, frozen=True):
    """When a reply arrived."""

    now: datetime  # wall clock, for display; it may jump
    at: float  # monotonic seconds, for measuring


class TransactionStarted(Struct, frozen=True):
    moment: Moment
    token: str  # unique to this transaction


class Found(Struct, frozen=True):
    moment: Moment
    item: KubeObject | None  # None: there is no such object


class Listed(Struct, frozen=True):
    moment: Moment
    items: tuple[KubeObject, ...]


class WriteResult(Struct, frozen=True):
    """The result of one write."""

    status: Status
    item: KubeObject | None = None  # as it is after the write, where that is known
    detail: str = ""
    machine: Machine | None = None  # the machine that a provider created
    code: str = ""  # of the blocker, if one stopped the write


class WritesDone(Struct, frozen=True):
    moment: Moment
    answers: tuple[WriteResult, ...]  # in the order of the writes


class ReadFailed(Struct, frozen=True):
    """A read failed, so nothing is known about what it asked for."""

    moment: Moment
    detail: str


TransactionReply: TypeAlias = TransactionStarted | Found | Listed | WritesDone | ReadFailed

# ── the driver ───────────────────────────────────────────────────────────────────────────────────────────────────────


class WriteFunction(Protocol):
    """Carries out writes and returns their results; the actuator provides it."""

    def __call__(self, writes: tuple[Write, ...], /) -> Awaitable[tuple[WriteResult, ...]]: ...


def new_token() -> str:
    return uuid.uuid4().hex


async def run_transaction(
    transaction: Transaction, client: Client, write: WriteFunction, clock: Clock, token: Callable[[], str] = new_token
) -> End:
    """Run a transaction to its end."""

    def moment() -> Moment:
        return Moment(clock.now(), clock.monotonic())

    state, request = transaction.step(transaction.start, TransactionStarted(moment(), token()))
    try:
        while not isinstance(request, End):
            reply: TransactionReply
            if isinstance(request, ConcurrentWrites):
                answers = await write(request.writes)
                reply = WritesDone(moment(), answers)
            else:
                reply = await _read(request, client, moment)
            state, request = transaction.step(state, reply)
        return request
    finally:
        transaction.ended(state)


async def _read(request: Get | ListAll, client: Client, moment: Callable[[], Moment]) -> TransactionReply:
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
        return ReadFailed(moment(), str(error))
