"""All that can happen: operators that run the protocol, and everything that may go wrong between any two of their steps.

The operators run `plimsoll.controllers.allocation.protocol.step`, the function that the operator itself runs, and their requests meet
a server that behaves as the API server does. Everything else is the adversary: leases run out whenever he likes (their
duration is zero), operators stop and go on, crash with writes still on their way, lose replies, and people meddle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from plimsoll.controllers.allocation.inventory import Inventory
from plimsoll.controllers.allocation.protocol import step
from plimsoll.controllers.allocation.session import AcquiringLease, Ended, Starting, State, Task
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.kube.leader_election import LeaseTimes
from plimsoll.kube.types.coordination import Lease
from plimsoll.runtime.transaction import (
    ConcurrentWrites,
    End,
    Found,
    Get,
    ListAll,
    Listed,
    Moment,
    TransactionReply,
    TransactionRequest,
    TransactionStarted,
    WriteResult,
    WritesDone,
)
from tests.model.server import ABSENT, Json, Server, kind_of, name_of

NODE = "n1"
LEASE = f"weka-allocator-{NODE}"
MOMENT = Moment(datetime(2026, 1, 1, tzinfo=UTC), 0.0)
IDLE = -1
UNANSWERED = (-1, "")

Answers: TypeAlias = tuple[tuple[int, str], ...]  # of each write of a batch: the object's number, and the word


class Running(NamedTuple):
    """One operator: where its protocol stands, and which of its writes are answered."""

    state: int = IDLE  # a number of `World.states`
    answers: Answers = ()
    life: int = 0  # how often it crashed: each life is a new process
    tries: int = 0  # how often it tried to take the lease in this life


class Store(NamedTuple):
    """What the server holds."""

    lease: int
    lease_version: int  # the version counter goes on when a lease is deleted
    containers: tuple[int, ...]


class Moves(NamedTuple):
    """What the adversary may still do."""

    epochs: int
    crashes: int = 0
    losses: int = 0  # replies
    edits: int = 0  # of the lease or of a container, by people


class World(NamedTuple):
    store: Store
    operators: tuple[Running, ...]
    on_their_way: frozenset[
        int
    ]  # writes of those that crashed or gave up waiting: they may arrive at any time, or never
    left: Moves


@dataclass
class Rules:
    """How a world goes on. A broken protocol is a subclass that answers or asks wrongly."""

    operators: int
    moves: Moves
    drives: int = 2
    containers: int = 2
    fair_weather: bool = False  # leases last, so that only a lease that was given back can be taken
    # To look at a lease and to take it is one step, and the writes of a batch arrive in order. Nothing is overlooked by the
    # first: a lease that changed in between is not taken, as if nobody had looked.
    coarse: bool = False
    server: Server = field(default_factory=Server)
    states: list[tuple[State, TransactionRequest]] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    _steps: dict[tuple[int, Any], int] = field(default_factory=dict)
    _satisfied: dict[tuple[int, ...], bool] = field(default_factory=dict)

    def beginning(self) -> World:
        bodies = [container(f"c{n}") for n in range(self.containers)]
        numbers = tuple(self.server.objects.number(body) for body in bodies)
        return World(Store(ABSENT, 0, numbers), (Running(),) * self.operators, frozenset(), self.moves)

    # ── what may happen next ─────────────────────────────────────────────────────────────────────────────────────────

    def after(self, world: World) -> Iterator[tuple[str, World]]:
        for number, operator in enumerate(world.operators):
            name = "ABC"[number]
            if operator.state == IDLE:
                if world.left.epochs and not self.satisfied(world.store):
                    begun = self._put(world, number, self._begin(name, number, operator))
                    yield f"{name} begins", self._acquire(begun, number) if self.coarse else begun
                continue
            _, request = self.states[operator.state]
            if isinstance(request, ConcurrentWrites):
                yield from self._writes(world, number, operator, request)
            else:
                yield f"{name} reads", self._put(world, number, self._read(world.store, operator, request))
            if world.left.crashes:
                yield f"{name} crashes", self._crash(world, number, operator, request)
        for write in world.on_their_way:
            rest = world._replace(on_their_way=world.on_their_way - {write})
            _, store = self._apply(rest, write)
            if store is not None:
                left = self._spent(rest.left, store, rest.store)
                yield "a late write arrives", self._tidy(rest._replace(store=store, left=left))
        if world.left.edits:
            yield from self._meddle(world)

    def satisfied(self, store: Store) -> bool:
        """L1, L4: everyone has what it asked for, and no proposal is left. Nobody begins for nothing."""
        if store.containers not in self._satisfied:
            found = [self.server.objects.decoded(one, WekaContainer) for one in store.containers if one != ABSENT]
            self._satisfied[store.containers] = all(one.allocated and len(one.conditions) == 1 for one in found)
        return self._satisfied[store.containers]

    def _acquire(self, world: World, number: int) -> World:
        operator = world.operators[number]
        world = self._put(world, number, self._read(world.store, operator, self.states[operator.state][1]))
        operator = world.operators[number]
        _, request = self.states[operator.state]
        assert isinstance(request, ConcurrentWrites)
        return next(following for _, following in self._writes(world, number, operator, request))

    def _begin(self, name: str, number: int, operator: Running) -> Running:
        uids = [f"c{n}-uid" for n in range(self.containers)]
        turn = tuple(uids[number % len(uids) :] + uids[: number % len(uids)])  # everyone serves another one first
        task = Task(
            NODE, Inventory(tuple(f"d{n}" for n in range(self.drives))), "system", LEASE, f"ns/c{number}",
            f"{name}{operator.life}", turn,
            times=LeaseTimes(duration=timedelta(seconds=15 if self.fair_weather else 0)),
        )  # fmt: skip
        opening = self._number(Starting(task), End())
        return self._step(
            operator, opening, ("opened", operator.tries), TransactionStarted(MOMENT, str(operator.tries))
        )

    def _read(self, store: Store, operator: Running, request: TransactionRequest) -> Running:
        objects = self.server.objects
        if isinstance(request, ListAll):
            there = tuple(one for one in store.containers if one != ABSENT)
            items = tuple(objects.decoded(one, WekaContainer) for one in there)
            return self._step(operator, operator.state, ("listed", there), Listed(MOMENT, items))
        assert isinstance(request, Get)
        seen = self.lease_seen(store, operator)
        found = objects.decoded(seen, Lease) if seen != ABSENT else None
        return self._step(operator, operator.state, ("found", seen), Found(MOMENT, found))

    def lease_seen(self, store: Store, operator: Running) -> int:
        return store.lease

    # ── writes ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _writes(
        self, world: World, number: int, operator: Running, request: ConcurrentWrites
    ) -> Iterator[tuple[str, World]]:
        name = "ABC"[number]
        answers = operator.answers or (UNANSWERED,) * len(request.writes)
        for position, answer in enumerate(answers):
            if answer != UNANSWERED:
                continue
            write = self.server.write_number(request.writes[position])
            if kind_of(request.writes[position]) is Lease and not self._may_take(world, write):
                continue
            outcome, store = self._apply(world, write)
            left = self._spent(world.left, store, world.store) if store is not None else world.left
            replied = self._answered(operator, position, answers, outcome, request)
            yield (
                f"{name} writes {name_of(request.writes[position])}: {outcome[1]}",
                self._tidy(self._put(world._replace(store=store or world.store, left=left), number, replied)),
            )
            if world.left.losses:
                # Nobody knows whether it was applied; it may still be, at any time.
                unknown = self._answered(operator, position, answers, (ABSENT, "unknown"), request)
                lost = world._replace(
                    on_their_way=world.on_their_way | {write}, left=world.left._replace(losses=world.left.losses - 1)
                )
                yield f"{name} loses a reply", self._put(lost, number, unknown)
            if self.coarse:
                break

    def _may_take(self, world: World, write: int) -> bool:
        body = self.server.writes[write].body  # type: ignore[union-attr]
        return bool(world.left.epochs) or not body["spec"].get("holderIdentity")  # type: ignore[call-overload]

    def _answered(
        self, operator: Running, position: int, answers: Answers, outcome: tuple[int, str], request: ConcurrentWrites
    ) -> Running:
        now = (*answers[:position], outcome, *answers[position + 1 :])
        if UNANSWERED in now:
            return operator._replace(answers=now)
        kinds = [kind_of(write) for write in request.writes]
        objects = self.server.objects
        items = [
            WriteResult(status, objects.decoded(one, kind) if one != ABSENT else None)  # type: ignore[arg-type]
            for (one, status), kind in zip(now, kinds, strict=True)
        ]
        tries = operator.tries + (isinstance(self.states[operator.state][0], AcquiringLease) and now[0][1] != "done")
        return self._step(
            operator._replace(tries=tries), operator.state, ("answered", now), WritesDone(MOMENT, tuple(items))
        )

    def _apply(self, world: World, write: int) -> tuple[tuple[int, str], Store | None]:
        """What the server answers, and the store afterwards where something changed."""
        sent, store = self.server.writes[write], world.store
        if kind_of(sent) is Lease:
            if not self._may_take(world, write):
                return (ABSENT, "conflict"), None
            status, made = self.server.apply(write, store.lease, store.lease_version + 1)
            if status != "done":
                return (ABSENT, status), None
            return (made, status), store._replace(lease=made, lease_version=store.lease_version + 1)
        place = int(name_of(sent)[1:])
        before = store.containers[place]
        version = int(self.server.objects.json[before]["metadata"]["resourceVersion"]) + 1 if before != ABSENT else 1
        status, made = self.server.apply(write, before, version)
        if status != "done":
            return (ABSENT, status), None
        containers = (*store.containers[:place], made, *store.containers[place + 1 :])
        return (made, status), store._replace(containers=containers)

    def _spent(self, left: Moves, after: Store, before: Store) -> Moves:
        """An epoch is spent when the lease is taken, not when it is given back."""
        if after.lease == before.lease or not self.server.objects.json[after.lease]["spec"]["holderIdentity"]:
            return left
        return left._replace(epochs=left.epochs - 1)

    # ── the adversary ────────────────────────────────────────────────────────────────────────────────────────────────

    def _crash(self, world: World, number: int, operator: Running, request: TransactionRequest) -> World:
        """The process dies; what it had sent may arrive yet. Its successor is another process."""
        sent: set[int] = set()
        if isinstance(request, ConcurrentWrites):
            answers = operator.answers or (UNANSWERED,) * len(request.writes)
            sent = {
                self.server.write_number(write)
                for write, answer in zip(request.writes, answers, strict=True)
                if answer == UNANSWERED
            }
        left = world.left._replace(crashes=world.left.crashes - 1)
        world = world._replace(on_their_way=world.on_their_way | sent, left=left)
        return self._tidy(self._put(world, number, Running(life=operator.life + 1)))

    def _tidy(self, world: World) -> World:
        """Forget late writes that the server would refuse: versions only grow, so it would refuse them for ever."""
        if not world.on_their_way:
            return world
        alive = frozenset(write for write in world.on_their_way if self._apply(world, write)[1] is not None)
        return world if alive == world.on_their_way else world._replace(on_their_way=alive)

    def _meddle(self, world: World) -> Iterator[tuple[str, World]]:
        store, left = world.store, world.left._replace(edits=world.left.edits - 1)
        if store.lease != ABSENT:
            version = store.lease_version + 1
            edited = store._replace(lease=self.server.edited(store.lease, version), lease_version=version)
            yield "someone edits the lease", self._tidy(world._replace(store=edited, left=left))
            gone = store._replace(lease=ABSENT)
            yield "someone deletes the lease", self._tidy(world._replace(store=gone, left=left))
        for place, one in enumerate(store.containers):
            version = int(self.server.objects.json[one]["metadata"]["resourceVersion"]) + 1
            for what, changed in (
                ("edits", self.server.edited(one, version)),
                ("recreates", self.server.objects.number(container(f"c{place}", f"c{place}-again", version))),
            ):
                containers = (*store.containers[:place], changed, *store.containers[place + 1 :])
                changed_store = store._replace(containers=containers)
                yield f"someone {what} c{place}", self._tidy(world._replace(store=changed_store, left=left))

    # ── the protocol ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _number(self, state: State, request: TransactionRequest) -> int:
        text = repr((state, request))
        if text not in self._numbers:
            self._numbers[text] = len(self.states)
            self.states.append((state, request))
        return self._numbers[text]

    def _step(self, operator: Running, state: int, key: Any, reply: TransactionReply) -> Running:
        """One step of the real function; the same step from the same reply is taken once."""
        if (state, key) not in self._steps:
            following, request = self.transition(self.states[state][0], reply)
            over = isinstance(following, Ended)
            self._steps[state, key] = IDLE if over else self._number(following, request)
        return operator._replace(state=self._steps[state, key], answers=())

    def transition(self, state: State, reply: TransactionReply) -> tuple[State, TransactionRequest]:
        return step(state, reply)

    @staticmethod
    def _put(world: World, number: int, operator: Running) -> World:
        operators = (*world.operators[:number], operator, *world.operators[number + 1 :])
        return world._replace(operators=operators)


def container(name: str, uid: str = "", version: int = 1) -> Json:
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": uid or f"{name}-uid", "resourceVersion": str(version)},
        "spec": {"nodeAffinity": NODE, "mode": "drive", "numDrives": 1},
    }
