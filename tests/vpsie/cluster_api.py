"""The operator's client of a managed cluster, and the record of orders that all of its processes share."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from plimsoll.providers.errors import AmbiguousOutcome, ProviderUnreachable
from plimsoll.providers.protocol import Machine, MachineRequest, Scope
from plimsoll.providers.vpsie.api import VpsieApi
from plimsoll.providers.vpsie.cluster_nodes import ClusterNodesProvider
from plimsoll.providers.vpsie.orders import NodeOrder
from tests.providers import build
from tests.vpsie.emulator import Emulator, VpsieCluster

ORDER = "POST /k8s/cluster/byId/c1/add/slave"


class Book:
    """What all processes share."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, NodeOrder]] = {}
        self.closed = False


class LedgerInBook:
    """One process's view of it, as strict about others' writes as the API server."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._read: dict[str, int] = {}

    async def read(self) -> Sequence[NodeOrder]:
        if self._book.closed:
            raise ProviderUnreachable("the book is closed")
        self._read = {key: revision for key, (revision, _) in self._book.pages.items()}
        return [order for _, order in self._book.pages.values()]

    async def begin(self, order: NodeOrder) -> None:
        if order.key in self._book.pages:
            raise AmbiguousOutcome("taken")
        self._book.pages[order.key] = (0, order)
        self._read[order.key] = 0

    async def write(self, order: NodeOrder) -> None:
        revision = self._read[order.key]
        if order.key not in self._book.pages or self._book.pages[order.key][0] != revision:
            raise AmbiguousOutcome("changed")
        self._read[order.key] = revision + 1
        self._book.pages[order.key] = (revision + 1, order)

    async def end(self, order: NodeOrder) -> None:
        self._book.pages.pop(order.key, None)


class Desk:
    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator
        self.clock = emulator.clock
        self.book = Book()
        self.cluster = emulator.clusters["c1"] = VpsieCluster()
        emulator.order_reply = "true"
        self._started: list[ClusterNodesProvider] = []
        self.provider = self.start()

    def start(self) -> ClusterNodesProvider:
        """A new process: all that it knows is in the book."""
        api = VpsieApi(self._secret, self.clock)
        self.provider = ClusterNodesProvider(api, LedgerInBook(self.book), self.clock)
        self._started.append(self.provider)
        return self.provider

    async def _secret(self) -> Mapping[str, str]:
        data = {"url": self.emulator.url, "clientId": "our-client-id", "clientSecret": "our-client-secret"}
        return {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}

    async def aclose(self) -> None:
        for provider in self._started:
            await provider.close()

    def request(self, key: str = "k1", **fields: Any) -> MachineRequest:
        return build.request(key, **{"resource_identifier": "c1", "offering": "7", **fields})

    async def create(self, key: str = "k1", **fields: Any) -> Machine:
        return await self.provider.create(self.request(key, **fields))

    async def list(self) -> dict[str, Machine]:
        return {machine.key: machine for machine in await self.provider.list(Scope("c1"))}
