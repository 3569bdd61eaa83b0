"""Disruptions as they are written down: in ConfigMaps of the operator's namespace, one entry a pod, by its UID.

`memory.py` writes them before each eviction, and when a node is lost with its pods. Decisions read them through the view: when a
workload was last disrupted, and how often lately, is then known to whoever leads, also after a restart.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import msgspec
from msgspec import Struct

from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import Key, Resource
from plimsoll.kube.types.stored import ConfigMap

LABEL = "plimsoll.dev/memory"
KIND = "disruptions"
SHARDS = 16  # a ConfigMap holds 1 MiB; by workload, so that one busy workload rewrites one small object


class Entry(Struct, frozen=True, omit_defaults=True):
    workload: Key
    pod: str  # namespace/name, for people
    at: datetime
    lost: bool = False  # it went with its node, not by our doing


def shard_name(workload: Key) -> str:
    return f"plimsoll-{KIND}-{hashlib.sha256('/'.join(workload).encode()).digest()[0] % SHARDS:x}"


@lru_cache(maxsize=4096)  # each entry that is added makes a whole ConfigMap new
def read_entry(text: str) -> Entry | None:
    """None where the text was edited by hand into something else."""
    try:
        return msgspec.json.decode(text, type=Entry)
    except msgspec.MsgspecError:
        return None


class _Shard(NamedTuple):
    """One ConfigMap as it was read, its moments in order."""

    of: ConfigMap
    moments: list[datetime]
    by_workload: dict[Key, list[datetime]]


class Disruptions:
    """When something was done by us. A ConfigMap is read again only when it has changed: many decisions look at each.

    What cannot be read, and what was lost by itself, is left to the door, which counts it against the limits.
    """

    def __init__(self, memory: Resource[ConfigMap]) -> None:
        self._memory = memory
        self._shards: dict[str, _Shard] = {}

    def follow(self, view: View) -> None:
        """Catch up with what the view shows of the memory."""
        there = {shard.name: shard for shard in view[self._memory]}
        for name in self._shards.keys() - there:
            del self._shards[name]
        for name, shard in there.items():
            held = self._shards.get(name)
            if held is None or held.of is not shard:
                self._shards[name] = _read(shard)

    def to(self, workload: Key, since: datetime | None = None) -> list[datetime]:
        """The moments after `since` at which a workload was disrupted, or all that are remembered."""
        found = [_after(since, shard.by_workload.get(workload, [])) for shard in self._shards.values()]
        return list(chain.from_iterable(found))

    def to_all(self, since: datetime) -> list[datetime]:
        """The moments after `since` at which any workload was."""
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
