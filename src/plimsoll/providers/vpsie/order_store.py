"""Where orders are written down: in ConfigMaps of the operator's namespace, one an order, named after its key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import AlreadyExists, Conflict, NotFound
from plimsoll.kube.types.resources import CONFIGMAPS
from plimsoll.kube.types.stored import ConfigMap
from plimsoll.providers.errors import AmbiguousOutcome, ProviderError
from plimsoll.providers.kube_errors import told_as_provider_errors
from plimsoll.providers.vpsie.orders import Order

_LABEL = "plimsoll.dev/provider"


class Ledger(Protocol):
    """Outlives every process. Who writes what another has written meanwhile gets AmbiguousOutcome."""

    async def read(self) -> Sequence[Order]:
        """All of them, or an error."""
        ...

    async def begin(self, order: Order) -> None:
        """Before anything is ordered."""
        ...

    async def write(self, order: Order) -> None: ...

    async def end(self, order: Order) -> None: ...


class LedgerInCluster:
    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._records: dict[str, ConfigMap] = {}  # by key, as last read or written

    async def read(self) -> list[Order]:
        """An order that cannot be read might be of any machine: it stops everything."""
        with told_as_provider_errors():
            records = await self._client.list(CONFIGMAPS, self._namespace, label_selector=f"{_LABEL}=vpsie")
        orders = []
        self._records = {}
        for record in records.items:
            try:
                order = msgspec.json.decode(record.data.get("order", ""), type=Order)
            except msgspec.DecodeError as error:
                where = f"ConfigMap {self._namespace}/{record.name}"
                raise ProviderError(f"the order in {where} cannot be read: {error}; mend or delete it") from error
            self._records[order.key] = record
            orders.append(order)
        return orders

    async def begin(self, order: Order) -> None:
        name = f"plimsoll-vpsie-{order.key}"
        body = {"metadata": {"name": name, "labels": {_LABEL: "vpsie"}}, "data": _data(order)}
        with told_as_provider_errors():
            try:
                self._records[order.key] = await self._client.create(CONFIGMAPS, self._namespace, body)
            except AlreadyExists:
                raise AmbiguousOutcome(f"another process is just ordering machine {order.name}; ask again") from None

    async def write(self, order: Order) -> None:
        record = self._records[order.key]
        with told_as_provider_errors():
            try:
                self._records[order.key] = await self._client.patch(
                    CONFIGMAPS, self._namespace, record.name, {"data": _data(order)},
                    uid=record.uid, resource_version=record.metadata.resource_version,
                )  # fmt: skip
            except (Conflict, NotFound):
                raise AmbiguousOutcome(f"another process is at the order of machine {order.name}; ask again") from None

    async def end(self, order: Order) -> None:
        record = self._records.pop(order.key)
        with told_as_provider_errors():
            try:
                await self._client.delete(CONFIGMAPS, self._namespace, record.name, uid=record.uid)
            except (Conflict, NotFound):
                return  # ended already


def _data(order: Order) -> dict[str, str]:
    return {"order": msgspec.json.encode(order).decode()}
