"""A client of a server that answers as a test tells it to; its waits take no time."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import Credentials
from tests.kube.stub_server import SkippingClock, StubServer


@pytest.fixture
async def stub() -> AsyncIterator[StubServer]:
    async with StubServer().serve() as server:
        yield server


@pytest.fixture
def clock() -> SkippingClock:
    return SkippingClock()


@pytest.fixture
async def client(stub: StubServer, clock: SkippingClock) -> AsyncIterator[Client]:
    async with Client(Credentials(stub.url), clock=clock, rng=random.Random(1)) as client:
        yield client
