"""The emulator, and a provider that talks to it."""

from __future__ import annotations

import base64
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import pytest

from plimsoll.providers.protocol import Machine, MachineRequest, Scope
from plimsoll.providers.vpsie.api import VpsieApi
from plimsoll.providers.vpsie.servers import ServersProvider
from tests.providers import build
from tests.vpsie.clock import SkippingClock
from tests.vpsie.emulator import Emulator

EVERYTHING = Scope()


class Desk:
    """An operator's end of the line. `start` is a new process, with the memory of one."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator
        self.clock = emulator.clock
        self.secret: dict[str, str] = {
            "url": emulator.url, "clientId": "our-client-id", "clientSecret": "our-client-secret"
        }  # fmt: skip
        self.secret_reads = 0
        self.restarted = False
        self._started: list[ServersProvider] = []
        self.provider = self.start()

    async def _read_secret(self) -> Mapping[str, str]:
        self.secret_reads += 1
        return {name: base64.b64encode(value.encode()).decode() for name, value in self.secret.items()}

    def start(self) -> ServersProvider:
        api = VpsieApi(self._read_secret, self.clock, random.Random(1))
        self.provider = ServersProvider(api, self.clock)
        self._started.append(self.provider)
        return self.provider

    async def aclose(self) -> None:
        for provider in self._started:
            await provider.close()

    async def create(self, key: str = "k1", **fields: Any) -> Machine:
        return await self.provider.create(self.request(key, **fields))

    def request(self, key: str = "k1", **fields: Any) -> MachineRequest:
        return build.request(key, **fields)

    async def list(self, scope: Scope = EVERYTHING) -> Mapping[str, Machine]:
        machines = await self.provider.list(scope)
        assert len({machine.key for machine in machines}) == len(machines)
        return {machine.key: machine for machine in machines}


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with Emulator(SkippingClock()).running() as emulator, aclosing(Desk(emulator)) as desk:
        yield desk
