"""Disruptions in ConfigMaps of the operator's namespace, so that they outlive a restart.

They are not annotations of the workloads: a Deployment's annotations are copied to its ReplicaSets and come back on
`rollout undo`. A disruption is recorded *before* the eviction is sent. The next leader, after a restart or a failover, then
knows which pods were evicted, also those that its view still shows as running.

The record is a fence, too. Two terms of leadership can overlap for a moment (a clock runs fast, a process was paused), and a UID
precondition protects one pod from a second eviction, not its siblings. So a disruption is written only on top of what this
process has read: of two concurrent writes the API server accepts one, and the other process reads it before it evicts.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Mapping
from datetime import UTC, timedelta

import msgspec
import structlog

from plimsoll.disruption.entries import KIND, Entry, disruption_shard, read_entry
from plimsoll.disruption.ledger import Disruption
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import Ambiguous, NotFound
from plimsoll.kube.shards import LABEL
from plimsoll.kube.types.core import ConfigMap
from plimsoll.kube.types.resources import Key, config_maps_in
from plimsoll.runtime.clock import Clock

log = structlog.get_logger()


class AnotherLeader(Exception):
    """The ConfigMap holds entries that this process neither wrote nor read: another leader is active. Nothing was written."""

    def __init__(self, disruptions: tuple[Disruption, ...]) -> None:
        super().__init__(
            f"another process has recorded {len(disruptions)} disruptions since this one became leader, the latest of pod "
            f"{disruptions[-1].pod}; they are counted before the next eviction"
        )
        self.disruptions = disruptions


class DisruptionStore:
    """Disruptions within the last `period`, by pod UID: evictions and node losses."""

    def __init__(self, client: Client, clock: Clock, *, namespace: str, period: timedelta) -> None:
        self.resource = config_maps_in(namespace)
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._period = period
        self._known: set[str] = set()  # UIDs of all entries that this process has read or written
        self._writing = asyncio.Lock()

    async def recall(self) -> tuple[Disruption, ...]:
        """All disruptions that still count, oldest first, on this process's clock."""
        listing = await self._client.list(self.resource, self._namespace, label_selector=f"{LABEL}={KIND}")
        read = {uid: entry for config_map in listing.items for uid, entry in self._entries(config_map).items()}
        self._known |= read.keys()
        found = [self._disruption(uid, entry) for uid, entry in read.items() if not self._over(entry)]
        return tuple(sorted(found, key=lambda disruption: disruption.at))

    async def remember(self, disruption: Disruption) -> ConfigMap:
        """Record a disruption before it happens.

        Raises AnotherLeader if others have written in the meantime, and Conflict if they write at the same time.
        """
        return await self._write(disruption_shard(disruption.workload), (disruption,), fenced=True)

    async def keep(self, losses: Iterable[Disruption]) -> None:
        """Record disruptions that have already happened."""
        by_shard: defaultdict[str, list[Disruption]] = defaultdict(list)
        for loss in losses:
            by_shard[disruption_shard(loss.workload)].append(loss)
        for name, of_shard in by_shard.items():
            await self._write(name, of_shard, fenced=False)

    def holds(self, disruption: Disruption) -> bool:
        return disruption.uid in self._known

    async def _write(self, shard: str, disruptions: Iterable[Disruption], *, fenced: bool) -> ConfigMap:
        """Add entries to a shard and remove those that no longer count."""
        data: dict[str, str | None] = {one.uid: msgspec.json.encode(self._entry(one)).decode() for one in disruptions}
        uids = frozenset(data)
        async with self._writing:
            try:
                there = await self._client.get(self.resource, self._namespace, shard)
            except NotFound:
                metadata = {"name": shard, "namespace": self._namespace, "labels": {LABEL: KIND}}
                made = self._client.create(self.resource, self._namespace, {"metadata": metadata, "data": data})
                return await self._carry_out(made, uids, fenced=fenced)
            held = self._entries(there)
            unknown = {uid: entry for uid, entry in held.items() if uid not in self._known}
            if fenced and unknown:
                self._known |= unknown.keys()
                # By their own timestamps they may be old; they were not there when this term began, so they count as new.
                now = self._clock.monotonic()
                raise AnotherLeader(tuple(_disruption(uid, entry, now) for uid, entry in unknown.items()))
            if not fenced:  # already recorded as an eviction
                data = {uid: text for uid, text in data.items() if uid not in held}
            over = {uid for uid, entry in held.items() if self._over(entry)} - unknown.keys() - uids
            changed = self._client.patch(
                self.resource, self._namespace, shard, {"data": data | dict.fromkeys(over)},
                resource_version=there.metadata.resource_version,
            )  # fmt: skip
            written = await self._carry_out(changed, uids, fenced=fenced)
            self._known -= over
            return written

    async def _carry_out(self, write: Awaitable[ConfigMap], uids: frozenset[str], *, fenced: bool) -> ConfigMap:
        """Await the write. A loss whose write failed, or may have failed, stays unknown and is written again."""
        try:
            written = await write
        except Ambiguous:
            if fenced:
                self._known |= uids  # it may be stored, and must not be mistaken for another leader's
            raise
        self._known |= uids
        return written

    def _over(self, entry: Entry) -> bool:
        return self._clock.now() - entry.at >= self._period

    def _entry(self, disruption: Disruption) -> Entry:
        age = timedelta(seconds=self._clock.monotonic() - disruption.at)
        return Entry(disruption.workload, disruption.pod, self._clock.now() - age, lost=not disruption.ours)

    def _disruption(self, uid: str, entry: Entry) -> Disruption:
        # An entry from a clock that was ahead of ours has age zero, never a negative age.
        age = max(timedelta(0), self._clock.now() - entry.at)
        return _disruption(uid, entry, self._clock.monotonic() - age.total_seconds())

    def _entries(self, config_map: ConfigMap) -> Mapping[str, Entry]:
        entries = {}
        for uid, text in config_map.data.items():
            entry = read_entry(text)
            if entry is None:
                # Edited by hand. It counts as a disruption of no workload at this moment: unreadable is not ignored.
                log.warning(
                    "cannot read disruption entry; counting it as a disruption now",
                    configmap=config_map.name,
                    entry=uid,
                )
                entry = Entry(Key("", "", ""), "", self._clock.now().astimezone(UTC))
            entries[uid] = entry
        return entries


def _disruption(uid: str, entry: Entry, at: float) -> Disruption:
    return Disruption(entry.workload, entry.pod, uid, at, ours=not entry.lost)
