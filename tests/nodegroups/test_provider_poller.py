"""Providers are asked again and again, and at once where a group names one that nobody asked yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from plimsoll.controllers.nodegroups.controller import CLUSTER
from plimsoll.controllers.nodegroups.provider_inventory import ProviderInventories, ProviderPoller
from plimsoll.controllers.nodegroups.types import NODE_GROUPS, VPSIE_NODES, NodeGroup
from plimsoll.kube.cache.store import View
from plimsoll.kube.codec import convert
from plimsoll.kube.types.resources import Key
from plimsoll.providers.protocol import Capabilities, Machine, Offering, Scope
from tests import build
from tests.clocks import StandingClock
from tests.eventually import eventually


class Asked:
    """A provider that has nothing, and counts who asks."""

    def __init__(self) -> None:
        self.places: list[str] = []

    async def list(self, scope: Scope) -> Sequence[Machine]:
        return ()

    async def offerings(self, datacenter: str) -> Sequence[Offering]:
        self.places.append(datacenter)
        return ()

    async def capabilities(self) -> Capabilities:
        return Capabilities(idempotent_create=True, lists_by_group=True, makes_nodes=True)


def group(name: str, place: str) -> NodeGroup:
    spec = {"provider": "cloud", "datacenterID": place, "offeringIDs": ["small"], "maxNodes": 1}
    return convert({"metadata": build.metadata(name), "spec": spec}, NodeGroup)


@asynccontextmanager
async def observing(view: View, provider: Any, looked: list[Key]) -> AsyncIterator[StandingClock]:
    clock = StandingClock()
    observer = ProviderPoller(
        ProviderInventories(), {"cloud": provider}, clock, interval=timedelta(minutes=1), cluster_key=CLUSTER
    )
    life = asyncio.create_task(observer.run(view, lambda: True, looked.append))
    yield clock
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)


async def test_a_group_that_names_another_place_does_not_wait_for_the_next_time() -> None:
    view = View.of({NODE_GROUPS: [group("first", "dc-1")], VPSIE_NODES: []})
    provider = Asked()
    looked: list[Key] = []
    async with observing(view, provider, looked) as clock:
        await eventually(lambda: looked, "the first answer")
        assert provider.places == ["dc-1"]
        view[NODE_GROUPS].put(group("second", "dc-2"))  # and no time passes
        await eventually(lambda: len(looked) == 2, "the second answer")
        assert provider.places == ["dc-1", "dc-1", "dc-2"]
        view[NODE_GROUPS].put(group("third", "dc-2"))
        clock.push(60)
        await eventually(lambda: len(provider.places) == 5, "the next time")
    assert provider.places == ["dc-1", "dc-1", "dc-2", "dc-1", "dc-2"], "of a place that is known, nobody asks at once"
