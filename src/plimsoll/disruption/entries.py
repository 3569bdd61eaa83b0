"""The stored form of disruptions, one entry per pod UID, and how decisions read them.

`disruption.store` writes entries before each eviction and after node losses. Decisions read them through the view, so that every
leader knows when a workload was last disrupted and how often lately, also after a restart.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import msgspec
from msgspec import Struct

from plimsoll.kube.cache.store import View
from plimsoll.kube.shards import LABEL, shard_name
from plimsoll.kube.types.core import ConfigMap
from plimsoll.kube.types.resources import Key, Resource

KIND = "disruptions"


class Entry(Struct, frozen=True, omit_defaults=True):
    workload: Key
    pod: str  # namespace/name, for people
    at: datetime
    lost: bool = False  # lost with its node, not evicted by us


def disruption_shard(workload: Key) -> str:
    return shard_name(KIND, "/".join(workload))


@lru_cache(maxsize=4096)  # each added entry changes the whole ConfigMap
def read_entry(text: str) -> Entry | None:
    """None if the text was edited by hand into something else."""
    try:
        return msgspec.json.decode(text, type=Entry)
    except msgspec.MsgspecError:
        return None


class _Shard(NamedTuple):
    """One ConfigMap as it was read, with its times in order."""

    of: ConfigMap
    moments: list[datetime]
    by_workload: dict[Key, list[datetime]]


class Disruptions:
    """Times of our own evictions. A ConfigMap is decoded again only after it has changed, because many decisions read it.

    Unreadable entries and node losses are left to the actuator, which counts them against the limits.
    """

    def __init__(self, memory: Resource[ConfigMap]) -> None:
        self._memory = memory
        self._shards: dict[str, _Shard] = {}

    def follow(self, view: View) -> None:
        """Decode the ConfigMaps that have changed in the view."""
        there = {shard.name: shard for shard in view[self._memory]}
        for name in self._shards.keys() - there:
            del self._shards[name]
        for name, shard in there.items():
            held = self._shards.get(name)
            if held is None or held.of is not shard:
                self._shards[name] = _read(shard)

    def to(self, workload: Key, since: datetime | None = None) -> list[datetime]:
        """Times after `since` at which a workload was disrupted; all stored ones without `since`."""
        found = [_after(since, shard.by_workload.get(workload, [])) for shard in self._shards.values()]
        return list(chain.from_iterable(found))

    def to_all(self, since: datetime) -> list[datetime]:
        """Times after `since` at which any workload was disrupted."""
        return list(chain.from_iterable(_after(since, shard.moments) for shard in self._shards.values()))


def _after(moment: datetime | None, moments: list[datetime]) -> list[datetime]:
    return moments if moment is None else moments[bisect_right(moments, moment) :]


def _read(shard: ConfigMap) -> _Shard:
    texts = shard.data.values() if shard.labels.get(LABEL) == KIND else ()
    entries = [entry for text in texts if (entry := read_entry(text)) is not None and not entry.lost]
    entries.sort(key=lambda entry: entry.at)
    by_workload: dict[Key, list[datetime]] = {}
    for entry in entries:
        by_workload.setdefault(entry.workload, []).append(entry.at)
    return _Shard(shard, [entry.at for entry in entries], by_workload)
