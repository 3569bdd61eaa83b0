"""Whatever happens between us and a managed cluster, and in whatever order: every node of ours is of one order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.providers.errors import ProviderError
from tests.vpsie.clock import SkippingClock
from tests.vpsie.cluster_api import ORDER, Desk
from tests.vpsie.emulator import Emulator, Node

STEPS = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(("a", "b", "c"))),
    st.tuples(st.just("create"), st.sampled_from(("a", "b", "c"))),
    st.tuples(st.just("delete"), st.sampled_from(("a", "b", "c"))),
    st.tuples(st.just("list"), st.none()),
    st.tuples(st.just("time"), st.sampled_from((5.0, 60.0, 400.0, 1000.0))),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("reply"), st.sampled_from(("true", "data"))),
    st.tuples(st.just("delay"), st.sampled_from((0.0, 30.0, 600.0))),
    st.tuples(st.just(ORDER), st.sampled_from(("lose reply", "lose request", "garbage", (502, None)))),
    st.tuples(st.just("GET /k8s"), st.sampled_from(("lose request", "garbage", "html", (200, {"data": True})))),
    st.tuples(st.just("DELETE /k8s"), st.sampled_from(("lose reply", "lose request", (500, None)))),
)


async def play(steps: Sequence[tuple[str, Any]]) -> None:
    async with Emulator(SkippingClock(), throttles=False).running() as emulator, aclosing(Desk(emulator)) as desk:
        theirs = Node("uuid-theirs", 1, 0.0)
        desk.cluster.nodes.append(theirs)
        generation = dict.fromkeys("abc", 0)
        for action, value in steps:
            try:
                match action:
                    case "create":
                        await desk.create(f"{value}{generation[value]}")
                    case "delete":
                        await desk.provider.delete(f"{value}{generation[value]}")
                        generation[value] += 1
                    case "list":
                        machines = await desk.list()
                        names = [machine.node_name for machine in machines.values() if machine.node_name]
                        assert len(set(names)) == len(names), "no node is two machines"
                    case "time":
                        desk.clock.push(value)
                    case "restart":
                        desk.start()
                    case "reply":
                        emulator.order_reply = value
                    case "delay":
                        emulator.node_seconds = value
                    case _:
                        emulator.fail(action, value)
            except ProviderError:
                pass  # of a known type, and nothing else ever
            assert not theirs.deleted
            assert len(desk.cluster.alive) - 1 <= len(desk.book.pages), "every node of ours is of one order"


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, min_size=5, max_size=40))
def test_every_node_is_of_one_order_whatever_happens(steps: list[tuple[str, Any]]) -> None:
    asyncio.run(play(steps))
