"""What must outlive a restart, kept in ConfigMaps of the operator's namespace.

Not on the workloads: a Deployment's annotations are copied to its ReplicaSets and come back on `rollout undo`. A disruption is
written down *before* the eviction is sent. Whoever leads next, after a restart or a failover, then knows which pods
were asked to leave, also those that its view still shows standing.

It is a fence, too. Two tenures can overlap for a moment (a clock runs fast, a process was paused), and a UID protects one pod
from being asked twice, not its siblings. So a disruption is written only on top of what this process has read: of two
that write at once the server lets one through, and the other learns of it before it may disrupt anything.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Mapping
from datetime import UTC, timedelta

import msgspec
import structlog

from plimsoll.disruption.entries import KIND, LABEL, Entry, read_entry, shard_name
from plimsoll.disruption.ledger import Disruption
from plimsoll.kube.client.client import Client
from plimsoll.kube.client.errors import Ambiguous, NotFound
from plimsoll.kube.types.resources import Key, config_maps_in
from plimsoll.kube.types.stored import ConfigMap
from plimsoll.runtime.clock import Clock

log = structlog.get_logger()


class AnotherTenure(Exception):
    """Memory holds what we neither wrote nor read when our tenure began: someone else is at work. Nothing was written."""

    def __init__(self, disruptions: tuple[Disruption, ...]) -> None:
        super().__init__(
            f"{len(disruptions)} disruptions were written down by another process since this one began to lead, the latest of "
            f"pod {disruptions[-1].pod}: they are taken into account first"
        )
        self.disruptions = disruptions


class DisruptionMemory:
    """Disruptions within the last `period`, by pod UID: ours, and what was lost with its node."""

    def __init__(self, client: Client, clock: Clock, *, namespace: str, period: timedelta) -> None:
        self.resource = config_maps_in(namespace)
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._period = period
        self._known: set[str] = set()  # UIDs of all entries that this process has read or written
        self._writing = asyncio.Lock()

    async def recall(self) -> tuple[Disruption, ...]:
        """Everything that still counts, oldest first, on this process's own clock."""
        listing = await self._client.list(self.resource, self._namespace, label_selector=f"{LABEL}={KIND}")
        read = {uid: entry for config_map in listing.items for uid, entry in self._entries(config_map).items()}
        self._known |= read.keys()
        found = [self._disruption(uid, entry) for uid, entry in read.items() if not self._over(entry)]
        return tuple(sorted(found, key=lambda disruption: disruption.at))

    async def remember(self, disruption: Disruption) -> ConfigMap:
        """Write a disruption down before it happens.

        Raises AnotherTenure where others have written in the meantime, and Conflict where they do so right now.
        """
        return await self._write(shard_name(disruption.workload), (disruption,), fenced=True)

    async def keep(self, losses: Iterable[Disruption]) -> None:
        """Write down what has happened already."""
        by_shard: defaultdict[str, list[Disruption]] = defaultdict(list)
        for loss in losses:
            by_shard[shard_name(loss.workload)].append(loss)
        for name, of_shard in by_shard.items():
            await self._write(name, of_shard, fenced=False)

    def holds(self, disruption: Disruption) -> bool:
        return disruption.uid in self._known

    async def _write(self, shard: str, disruptions: Iterable[Disruption], *, fenced: bool) -> ConfigMap:
        """Add entries to a shard, and strike out what no longer counts."""
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
                # By their own clock they may seem old; by ours they were not there when the tenure began.
                now = self._clock.monotonic()
                raise AnotherTenure(tuple(_disruption(uid, entry, now) for uid, entry in unknown.items()))
            if not fenced:  # it was asked to leave, too: once is enough
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
        """A loss whose write failed, or may have, stays unknown: `holds` denies it, and it is written again."""
        try:
            written = await write
        except Ambiguous:
            if fenced:
                self._known |= uids  # it may be there, and what is ours must not be taken for another's
            raise
        self._known |= uids
        return written

    def _over(self, entry: Entry) -> bool:
        return self._clock.now() - entry.at >= self._period

    def _entry(self, disruption: Disruption) -> Entry:
        age = timedelta(seconds=self._clock.monotonic() - disruption.at)
        return Entry(disruption.workload, disruption.pod, self._clock.now() - age, lost=not disruption.ours)

    def _disruption(self, uid: str, entry: Entry) -> Disruption:
        # An entry from a clock that was ahead of ours is as young as can be, never younger.
        age = max(timedelta(0), self._clock.now() - entry.at)
        return _disruption(uid, entry, self._clock.monotonic() - age.total_seconds())

    def _entries(self, config_map: ConfigMap) -> Mapping[str, Entry]:
        entries = {}
        for uid, text in config_map.data.items():
            entry = read_entry(text)
            if entry is None:
                # Edited by hand. Counted as a disruption of nobody, just now: what cannot be read is not ignored.
                log.warning("unreadable entry in memory", configmap=config_map.name, entry=uid)
                entry = Entry(Key("", "", ""), "", self._clock.now().astimezone(UTC))
            entries[uid] = entry
        return entries


def _disruption(uid: str, entry: Entry, at: float) -> Disruption:
    return Disruption(entry.workload, entry.pod, uid, at, ours=not entry.lost)
