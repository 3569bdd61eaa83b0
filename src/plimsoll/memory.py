"""What must outlive a restart, kept in ConfigMaps of the operator's namespace.

Not on the workloads: a Deployment's annotations are copied to its ReplicaSets and come back on `rollout undo`. A disruption is
written down *before* the eviction is sent. Whoever leads next, after a restart or a failover, then knows which pods
were asked to leave, also those that its view still shows standing.
"""

from __future__ import annotations

from datetime import UTC, timedelta

import msgspec
import structlog

from plimsoll.clock import Clock
from plimsoll.disruption import Disruption
from plimsoll.kube.client import Client
from plimsoll.kube.errors import AlreadyExists, NotFound
from plimsoll.kube.records import ConfigMap
from plimsoll.kube.resources import Key, config_maps_in
from plimsoll.remembered import KIND, LABEL, Entry, read_entry, shard_name

log = structlog.get_logger()


class DisruptionMemory:
    """Disruptions of ours within the last `period`, by pod UID."""

    def __init__(self, client: Client, clock: Clock, *, namespace: str, period: timedelta) -> None:
        self.resource = config_maps_in(namespace)
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._period = period

    async def recall(self) -> tuple[Disruption, ...]:
        """Everything that still counts, oldest first, on this process's own clock."""
        listing = await self._client.list(self.resource, self._namespace, label_selector=f"{LABEL}={KIND}")
        found = [
            self._disruption(uid, entry)
            for config_map in listing.items
            for uid, entry in self._entries(config_map).items()
            if not self._over(entry)
        ]
        return tuple(sorted(found, key=lambda disruption: disruption.at))

    async def remember(self, disruption: Disruption) -> ConfigMap:
        """Write a disruption down, and strike out what no longer counts; raises if that did not succeed."""
        name = shard_name(disruption.workload)
        entry = Entry(disruption.workload, disruption.pod, self._clock.now())
        data: dict[str, str | None] = {disruption.uid: msgspec.json.encode(entry).decode()}
        try:
            there = await self._client.get(self.resource, self._namespace, name)
        except NotFound:
            body = {"metadata": {"name": name, "namespace": self._namespace, "labels": {LABEL: KIND}}, "data": data}
            try:
                return await self._client.create(self.resource, self._namespace, body)
            except AlreadyExists:
                return await self._client.patch(self.resource, self._namespace, name, {"data": data})
        data |= {uid: None for uid, old in self._entries(there).items() if self._over(old)}
        return await self._client.patch(self.resource, self._namespace, name, {"data": data})

    def _over(self, entry: Entry) -> bool:
        return self._clock.now() - entry.at >= self._period

    def _disruption(self, uid: str, entry: Entry) -> Disruption:
        # An entry from a clock that was ahead of ours is as young as can be, never younger.
        age = max(timedelta(0), self._clock.now() - entry.at)
        at = self._clock.monotonic() - age.total_seconds()
        return Disruption(entry.workload, entry.pod, uid, at)

    def _entries(self, config_map: ConfigMap) -> dict[str, Entry]:
        entries = {}
        for uid, text in config_map.data.items():
            entry = read_entry(text)
            if entry is None:
                # Edited by hand. Counted as a disruption of nobody, just now: what cannot be read is not ignored.
                log.warning("unreadable entry in memory", configmap=config_map.name, entry=uid)
                entry = Entry(Key("", "", ""), "", self._clock.now().astimezone(UTC))
            entries[uid] = entry
        return entries
