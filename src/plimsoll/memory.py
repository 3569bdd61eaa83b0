"""What must outlive a restart, kept in ConfigMaps of the operator's namespace.

Not on the workloads: a Deployment's annotations are copied to its ReplicaSets and come back on `rollout undo`. A disruption is
written down *before* the eviction is sent. Whoever leads next, after a restart or a failover, then knows which pods
were asked to leave, also those that its view still shows standing.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import msgspec
import structlog

from plimsoll.clock import Clock
from plimsoll.disruption import Disruption
from plimsoll.kube.client import Client
from plimsoll.kube.errors import AlreadyExists, NotFound
from plimsoll.kube.resources import CONFIGMAPS, Key
from plimsoll.kube.types import ConfigMap

log = structlog.get_logger()

LABEL = "plimsoll.dev/memory"
KIND = "disruptions"
SHARDS = 16  # a ConfigMap holds 1 MiB; by workload, so that one busy workload rewrites one small object


class _Entry(msgspec.Struct, frozen=True):
    workload: Key
    pod: str
    at: datetime


class DisruptionMemory:
    """Disruptions of ours within the last `period`, by pod UID."""

    def __init__(self, client: Client, clock: Clock, *, namespace: str, period: timedelta) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._period = period

    async def recall(self) -> tuple[Disruption, ...]:
        """Everything that still counts, oldest first, on this process's own clock."""
        listing = await self._client.list(CONFIGMAPS, self._namespace, label_selector=f"{LABEL}={KIND}")
        found = [
            self._disruption(uid, entry)
            for config_map in listing.items
            for uid, entry in self._entries(config_map).items()
            if not self._over(entry)
        ]
        return tuple(sorted(found, key=lambda disruption: disruption.at))

    async def remember(self, disruption: Disruption) -> None:
        """Write a disruption down, and strike out what no longer counts; raises if that did not succeed."""
        name = f"plimsoll-{KIND}-{_shard(disruption.workload):x}"
        entry = _Entry(disruption.workload, disruption.pod, self._clock.now())
        data: dict[str, str | None] = {disruption.uid: msgspec.json.encode(entry).decode()}
        try:
            there = await self._client.get(CONFIGMAPS, self._namespace, name)
        except NotFound:
            body = {"metadata": {"name": name, "namespace": self._namespace, "labels": {LABEL: KIND}}, "data": data}
            try:
                await self._client.create(CONFIGMAPS, self._namespace, body)
            except AlreadyExists:
                await self._client.patch(CONFIGMAPS, self._namespace, name, {"data": data})
            return
        data |= {uid: None for uid, old in self._entries(there).items() if self._over(old)}
        await self._client.patch(CONFIGMAPS, self._namespace, name, {"data": data})

    def _over(self, entry: _Entry) -> bool:
        return self._clock.now() - entry.at >= self._period

    def _disruption(self, uid: str, entry: _Entry) -> Disruption:
        # An entry from a clock that was ahead of ours is as young as can be, never younger.
        age = max(timedelta(0), self._clock.now() - entry.at)
        at = self._clock.monotonic() - age.total_seconds()
        return Disruption(entry.workload, entry.pod, uid, at)

    def _entries(self, config_map: ConfigMap) -> dict[str, _Entry]:
        entries = {}
        for uid, text in config_map.data.items():
            try:
                entries[uid] = msgspec.json.decode(text, type=_Entry)
            except msgspec.MsgspecError:
                # Edited by hand. Counted as a disruption of nobody, just now: what cannot be read is not ignored.
                log.warning("unreadable entry in memory", configmap=config_map.name, entry=uid)
                entries[uid] = _Entry(Key("", "", ""), "", self._clock.now().astimezone(UTC))
        return entries


def _shard(workload: Key) -> int:
    return hashlib.sha256("/".join(workload).encode()).digest()[0] % SHARDS
