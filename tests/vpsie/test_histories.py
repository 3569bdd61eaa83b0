"""Random histories of orders, deletions, restarts and faults: never two machines under one key, and none forgotten."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.providers.errors import ProviderError
from plimsoll.providers.protocol import Scope
from tests.vpsie.clock import SkippingClock
from tests.vpsie.conftest import Desk
from tests.vpsie.emulator import Emulator

KEYS = ("a", "b", "c")
FAULTS: tuple[Any, ...] = (
    "lose reply", "lose request", "huge", "garbage", "html",
    (500, {"error": True, "message": "oops"}), (502, None), (503, {"error": True, "message": "busy"}),
    (401, {"error": True, "message": "no"}), (200, {"error": True, "code": 422, "message": "no"}),
    (429, {"error": True, "message": "slow down", "headers": {"Retry-After": "2"}}),
)  # fmt: skip
STEPS = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(KEYS)),
    st.tuples(st.just("create"), st.sampled_from(KEYS)),
    st.tuples(st.just("delete"), st.sampled_from(KEYS)),
    st.tuples(st.just("list"), st.none()),
    st.tuples(st.just("time"), st.sampled_from((1.0, 20.0, 60.0, 130.0))),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("lag"), st.sampled_from((0.0, 10.0, 100.0))),
    st.tuples(st.just("POST /vm"), st.sampled_from(FAULTS)),
    st.tuples(st.just("POST /vm"), st.sampled_from(FAULTS)),
    st.tuples(st.just("GET /vm"), st.sampled_from(FAULTS)),
    st.tuples(st.just("DELETE /vm"), st.sampled_from(FAULTS)),
    st.tuples(st.just("POST /auth"), st.sampled_from(FAULTS)),
    st.tuples(st.just("reply"), st.sampled_from(("machine", "data", "true", "bare true"))),
)


class Asker:
    """Asks as a node group does: a key a machine, never again once it is deleted, and it writes down when it asked."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.generation = dict.fromkeys(KEYS, 0)
        self.ids: dict[str, str] = {}  # key → of a machine that we were told of
        self.asked: dict[str, datetime] = {}  # key → when, last
        self.deleted: set[str] = set()

    def key(self, name: str) -> str:
        return f"{name}{self.generation[name]}"

    async def create(self, name: str) -> None:
        key = self.key(name)
        before = self.asked.get(key)
        self.asked[key] = self.desk.clock.now()  # written down before asking
        machine = await self.desk.create(key, last_asked_at=before)
        assert machine.key == key
        if machine.id:
            assert self.ids.setdefault(key, machine.id) == machine.id

    async def delete(self, name: str) -> None:
        key = self.key(name)
        if key in self.ids:
            await self.desk.provider.delete(self.ids[key])
            self.deleted.add(self.ids.pop(key))
            self.generation[name] += 1

    async def list(self) -> None:
        machines = {machine.id: machine for machine in await self.desk.provider.list(Scope("cluster-1"))}
        assert len({machine.key for machine in machines.values()}) == len(machines)
        shown_as_alive = {machine.id for machine in machines.values() if machine.state != "deleting"}
        now, lag = self.desk.clock.monotonic(), self.desk.emulator.lag_seconds
        old = {str(vm.id) for vm in self.desk.emulator.alive if now - vm.made_at > lag}
        assert old <= set(machines), "what VPSie lists is there"
        if not self.desk.restarted:
            assert not shown_as_alive & self.deleted
            assert set(self.ids.values()) <= set(machines), "what we were told of is there"


async def play(steps: list[tuple[str, Any]]) -> None:
    async with Emulator(SkippingClock(), throttles=False).running() as emulator, aclosing(Desk(emulator)) as desk:
        asker = Asker(desk)
        for action, value in steps:
            try:
                match action:
                    case "create":
                        await asker.create(value)
                    case "delete":
                        await asker.delete(value)
                    case "list":
                        await asker.list()
                    case "time":
                        desk.clock.push(value)
                    case "restart":
                        desk.start()
                        desk.restarted = True
                    case "lag":
                        emulator.lag_seconds = value
                    case "reply":
                        emulator.order_reply = value
                    case _:
                        emulator.fail(action, value)
            except ProviderError:
                pass  # of a known type, and nothing else ever
            assert all(count == 1 for count in emulator.keys.values()), emulator.keys
            assert not asker.deleted & {str(vm.id) for vm in emulator.alive}


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, min_size=5, max_size=40))
def test_one_key_is_one_machine_whatever_happens(steps: list[tuple[str, Any]]) -> None:
    asyncio.run(play(steps))
