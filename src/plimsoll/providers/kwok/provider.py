"""The provider `kwok`: nodes that KWOK simulates, for development clusters, demonstrations and tests.

A machine is an order (a ConfigMap in the operator's namespace) until `createDelay` has passed, then a Node; after its deletion was
requested, it is an annotated Node until `deleteDelay` has passed. All state is in the cluster, so every call of `list`, `create`
or `delete`, in whatever process, continues what was started. An order is named after its key and a Node after its machine, so
neither can be created twice.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sequence
from datetime import datetime, timedelta
from weakref import WeakValueDictionary

import structlog

from plimsoll.config.providers import Kwok, KwokOffering
from plimsoll.kube.backoff import Backoff
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import AlreadyExists, Conflict, Invalid, KubeError, NotFound
from plimsoll.kube.types.core import ConfigMap, Node
from plimsoll.kube.types.resources import CONFIGMAPS, NODES
from plimsoll.providers.errors import OfferingUnavailable, ProviderError
from plimsoll.providers.kube_errors import as_provider_errors
from plimsoll.providers.kwok.nodes import (
    DELETING_SINCE,
    KEY_LABEL,
    SELECTOR,
    KwokOrder,
    node_body,
    node_machine,
    order_body,
    order_data,
    order_name,
    ordered_machine,
    parse_order_time,
    read_order,
    to_offering,
)
from plimsoll.providers.protocol import Capabilities, Machine, MachineRequest, Offering, Scope
from plimsoll.providers.registry import Setup
from plimsoll.runtime.clock import Clock

log = structlog.get_logger()


def kwok_provider(setup: Setup) -> KwokProvider:
    return KwokProvider(setup.config.kwok, setup.client, setup.namespace, setup.clock)


class KwokProvider:
    name = "kwok"

    def __init__(self, config: Kwok, client: Client, namespace: str, clock: Clock) -> None:
        self._config = config
        self._offerings: dict[str, KwokOffering] = {offering.id: offering for offering in config.offerings}
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._under_way: dict[str, asyncio.Task[None]] = {}  # by key: creates or deletes a node after its delay
        # A deletion must not overtake an order that is just becoming a node: it would find neither.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def capabilities(self) -> Capabilities:
        return Capabilities(idempotent_create=True, lists_by_group=True, makes_nodes=True)

    async def offerings(self, datacenter: str) -> Sequence[Offering]:  # noqa: ARG002 - the same everywhere
        return [to_offering(offering) for offering in self._config.offerings]

    async def list(self, scope: Scope) -> Sequence[Machine]:
        with as_provider_errors():
            # Orders first: an order that becomes a node in between is then listed twice, never missed.
            records = (await self._client.list(CONFIGMAPS, self._namespace, label_selector=SELECTOR)).items
            nodes = (await self._client.list(NODES, label_selector=SELECTOR)).items
        machines = {}
        for record in records:
            try:
                order = read_order(record)
            except ProviderError as error:
                key = record.labels.get(KEY_LABEL, "")
                machines[key] = Machine(key, key, key, state="failed", message=str(error))
            else:
                machines[order.request.key] = ordered_machine(order)
                self._schedule_creation(order)
        for node in nodes:
            machine = node_machine(node)
            machines[machine.key] = machine
            if machine.state == "deleting":
                self._schedule_deletion(node)
        return [machine for machine in machines.values() if machine.within(scope)]

    async def create(self, request: MachineRequest) -> Machine:
        if request.offering not in self._offerings:
            known = ", ".join(self._offerings) or "none"
            raise OfferingUnavailable(
                f'kwok has no offering "{request.offering}"; providers.kwok.offerings has: {known}'
            )
        async with self._turn(request.key):
            with as_provider_errors():
                if node := await self._node_named(request.name):
                    if node.labels.get(KEY_LABEL) != request.key:
                        raise ProviderError(
                            f"a node named {request.name} exists already and belongs to another request"
                        )
                    return node_machine(node)
                order = KwokOrder(request, self._clock.now())
                if not self._config.create_delay:
                    return await self._make_node(order)
                try:
                    await self._client.create(CONFIGMAPS, self._namespace, order_body(order))
                except AlreadyExists:
                    record = await self._client.get(CONFIGMAPS, self._namespace, order_name(request.key))
                    order = read_order(record)
        self._schedule_creation(order)
        return ordered_machine(order)

    async def delete(self, machine_id: str) -> None:
        node: Node | None = None
        async with self._turn(machine_id):
            with as_provider_errors():
                if record := await self._record(machine_id):
                    await self._drop(record)
                if node := await self._node_of(machine_id):
                    if not self._config.delete_delay:
                        await self._remove(node)
                        return
                    if DELETING_SINCE not in node.annotations:
                        since = {DELETING_SINCE: self._clock.now().isoformat()}
                        node = await self._client.patch(
                            NODES, "", node.name, {"metadata": {"annotations": since}}, uid=node.uid
                        )
        if node is None:
            self._cancel(machine_id)
        else:
            self._schedule_deletion(node)

    async def close(self) -> None:
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._under_way.clear()

    # ── delayed creation and deletion ──────────────────────────────────────────────────────────────────────────────────────────────

    def _schedule_creation(self, order: KwokOrder) -> None:
        if not order.failure:
            due = order.ordered_at + self._config.create_delay
            self._schedule(order.request.key, self._create_later(order.request.key, due))

    def _schedule_deletion(self, node: Node) -> None:
        since = parse_order_time(node.annotations.get(DELETING_SINCE, ""))
        if since is not None and not node.terminating:
            key = node.labels.get(KEY_LABEL, "")
            self._cancel(key)  # its creation is finished or obsolete
            self._schedule(f"{key} deletion", self._delete_later(key, since + self._config.delete_delay))

    def _schedule(self, name: str, work: Coroutine[None, None, None]) -> None:
        running = self._under_way.get(name)
        if running is not None and not running.done():
            work.close()
            return
        task = self._under_way[name] = asyncio.create_task(work)
        task.add_done_callback(lambda done: self._under_way.pop(name) if self._under_way.get(name) is done else None)

    def _cancel(self, key: str) -> None:
        task = self._under_way.pop(key, None)
        if task is not None:
            task.cancel()

    def _turn(self, key: str) -> asyncio.Lock:
        return self._turns.setdefault(key, asyncio.Lock())

    async def _create_later(self, key: str, due: datetime) -> None:
        await self._until(due)
        backoff = _backoff()
        while True:
            try:
                async with self._turn(key):
                    await self._fulfil(key)
            except KubeError as error:
                log.warning("cannot create KWOK node; retrying", key=key, error=str(error))
                await self._clock.sleep(backoff.next())
            else:
                return

    async def _fulfil(self, key: str) -> None:
        record = await self._record(key)
        if record is None:
            return  # deleted before it was created
        try:
            order = read_order(record)
        except ProviderError:
            return  # the record became invalid; `list` reports it
        try:
            await self._make_node(order)
        except (ProviderError, Invalid) as error:
            failed = KwokOrder(order.request, order.ordered_at, str(error))
            await self._client.patch(
                CONFIGMAPS, self._namespace, record.name, {"data": order_data(failed)}, uid=record.uid
            )
            log.warning("cannot create KWOK node", key=key, error=str(error))
            return
        await self._drop(record)

    async def _delete_later(self, key: str, due: datetime) -> None:
        await self._until(due)
        backoff = _backoff()
        while True:
            try:
                if node := await self._node_of(key):
                    await self._remove(node)
            except KubeError as error:
                log.warning("cannot delete KWOK node; retrying", key=key, error=str(error))
                await self._clock.sleep(backoff.next())
            else:
                return

    async def _until(self, due: datetime) -> None:
        left = due - self._clock.now()
        if left > timedelta(0):
            await self._clock.sleep(left.total_seconds())

    # ── objects ────────────────────────────────────────────────────────────────────────────────────────

    async def _make_node(self, order: KwokOrder) -> Machine:
        """Raises ProviderError if the node can never be created."""
        request = order.request
        offering = self._offerings.get(request.offering)
        if offering is None:
            raise OfferingUnavailable(f'"{request.offering}" is no longer among providers.kwok.offerings')
        try:
            return node_machine(await self._client.create(NODES, "", node_body(order, offering)))
        except AlreadyExists:
            node = await self._node_named(request.name)
            if node is None or node.labels.get(KEY_LABEL) != request.key:
                raise ProviderError(
                    f"a node named {request.name} exists already and belongs to another request"
                ) from None
            return node_machine(node)

    async def _node_named(self, name: str) -> Node | None:
        try:
            return await self._client.get(NODES, "", name)
        except NotFound:
            return None

    async def _node_of(self, key: str) -> Node | None:
        found = await self._client.list(NODES, label_selector=f"{SELECTOR},{KEY_LABEL}={key}")
        return found.items[0] if found.items else None

    async def _record(self, key: str) -> ConfigMap | None:
        try:
            return await self._client.get(CONFIGMAPS, self._namespace, order_name(key))
        except NotFound:
            return None

    async def _drop(self, record: ConfigMap) -> None:
        try:
            await self._client.delete(CONFIGMAPS, self._namespace, record.name, uid=record.uid)
        except (NotFound, Conflict):
            return  # gone already

    async def _remove(self, node: Node) -> None:
        try:
            await self._client.delete(NODES, "", node.name, uid=node.uid)
        except (NotFound, Conflict):
            return  # gone already, or another of its name


def _backoff() -> Backoff:
    return Backoff(1, 60, random.Random())  # noqa: S311 (spreads load, hides nothing)
