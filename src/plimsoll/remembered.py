"""Disruptions as they are written down: in ConfigMaps of the operator's namespace, one entry a pod, by its UID.

`memory.py` writes them before each eviction, and when a node is lost with its pods. Decisions read them through the view: when a
workload was last disrupted, and how often lately, is then known to whoever leads, also after a restart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache

import msgspec
from msgspec import Struct

from plimsoll.kube.records import ConfigMap
from plimsoll.kube.resources import Key, Resource
from plimsoll.kube.store import View

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


@lru_cache(maxsize=4096)  # every look at a workload reads the same texts again
def read_entry(text: str) -> Entry | None:
    """None where the text was edited by hand into something else."""
    try:
        return msgspec.json.decode(text, type=Entry)
    except msgspec.MsgspecError:
        return None


def disruptions(view: View, memory: Resource[ConfigMap], workload: Key | None = None) -> Iterator[Entry]:
    """What was done by us, to one workload or to all.

    What cannot be read, and what was lost by itself, is left to the door, which counts it against the limits.
    """
    shards = view[memory] if workload is None else [view[memory].get(memory.watched_in, shard_name(workload))]
    for shard in shards:
        if shard is None or shard.labels.get(LABEL) != KIND:
            continue
        for text in shard.data.values():
            entry = read_entry(text)
            if entry is not None and not entry.lost and workload in (None, entry.workload):
                yield entry
