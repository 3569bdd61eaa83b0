"""Stores orders in ConfigMaps of the operator's namespace, one per order, named after its key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import AlreadyExists, Conflict, NotFound
from plimsoll.kube.types.core import ConfigMap
from plimsoll.kube.types.resources import CONFIGMAPS
from plimsoll.providers.errors import AmbiguousOutcome, ProviderError
from plimsoll.providers.kube_errors import as_provider_errors
from plimsoll.providers.vpsie.orders import NodeOrder

_LABEL = "plimsoll.dev/provider"


class OrderStore(Protocol):
    """Survives restarts. A write that conflicts with one of another process raises AmbiguousOutcome."""

    async def read(self) -> Sequence[NodeOrder]:
        """All orders, or an error."""
        ...

    async def begin(self, order: NodeOrder) -> None:
        """Called before anything is ordered."""
        ...

    async def write(self, order: NodeOrder) -> None: ...

    async def end(self, order: NodeOrder) -> None: ...


class ConfigMapOrderStore:
    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._records: dict[str, ConfigMap] = {}  # by key, as last read or written

    async def read(self) -> list[NodeOrder]:
        """Raises if any order cannot be read, because it might be of any machine."""
        with as_provider_errors():
            records = await self._client.list(CONFIGMAPS, self._namespace, label_selector=f"{_LABEL}=vpsie")
        orders = []
        self._records = {}
        for record in records.items:
            try:
                order = msgspec.json.decode(record.data.get("order", ""), type=NodeOrder)
            except msgspec.DecodeError as error:
                where = f"ConfigMap {self._namespace}/{record.name}"
                raise ProviderError(
                    f"the order in {where} cannot be read: {error}; repair or delete the ConfigMap"
                ) from error
            self._records[order.key] = record
            orders.append(order)
        return orders

    async def begin(self, order: NodeOrder) -> None:
        name = f"plimsoll-vpsie-{order.key}"
        body = {"metadata": {"name": name, "labels": {_LABEL: "vpsie"}}, "data": _data(order)}
        with as_provider_errors():
            try:
                self._records[order.key] = await self._client.create(CONFIGMAPS, self._namespace, body)
            except AlreadyExists:
                raise AmbiguousOutcome(f"another process is ordering machine {order.name}; retry") from None

    async def write(self, order: NodeOrder) -> None:
        record = self._records[order.key]
        with as_provider_errors():
            try:
                self._records[order.key] = await self._client.patch(
                    CONFIGMAPS, self._namespace, record.name, {"data": _data(order)},
                    uid=record.uid, resource_version=record.metadata.resource_version,
                )  # fmt: skip
            except (Conflict, NotFound):
                raise AmbiguousOutcome(f"another process changed the order of machine {order.name}; retry") from None

    async def end(self, order: NodeOrder) -> None:
        record = self._records.pop(order.key)
        with as_provider_errors():
            try:
                await self._client.delete(CONFIGMAPS, self._namespace, record.name, uid=record.uid)
            except (Conflict, NotFound):
                return  # ended already


def _data(order: NodeOrder) -> dict[str, str]:
    return {"order": msgspec.json.encode(order).decode()}
