"""Holding back from spot. Where spot ran short for a workload its replicas get on-demand for a while; then it tries again.

The pause grows with each shortage that follows soon on the last. After it, one replica at a time is sent to spot until one has
found a node there: a shortage that goes on then costs one waiting pod, not all of them.

The record is kept in a ConfigMap of the operator's namespace, under the workload's UID, and read through the view: whoever
leads next, and whoever answers admissions, sees the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec
from msgspec import Struct

from plimsoll.controllers.placement.annotations import marked_class
from plimsoll.controllers.placement.replica_counts import Replica
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import Key
from plimsoll.kube.types.stored import ConfigMap
from plimsoll.runtime.decision import Blocker, Create, Patch, Reason, Ref

LABEL = "plimsoll.dev/memory"
KIND = "placement"
SHARDS = 16  # a ConfigMap holds 1 MiB; many workloads that run short together must not all rewrite one object
# What Cluster Autoscaler waits for a node group that failed to grow, and when it forgets that it did.
FIRST_PAUSE = timedelta(minutes=5)
LONGEST_PAUSE = timedelta(minutes=30)
FORGOTTEN_AFTER = timedelta(hours=3)


class Holdback(Struct, frozen=True):
    """The last shortage of one workload."""

    workload: Key
    since: datetime
    until: datetime
    shortages: int = 1  # in a row, each soon after the last

    def forgotten(self, now: datetime) -> bool:
        return now >= self.until + FORGOTTEN_AFTER


def pause(shortages: int) -> timedelta:
    """5, 10, 20, then 30 minutes."""
    return min(FIRST_PAUSE * (1 << min(shortages - 1, 16)), LONGEST_PAUSE)


def holdback_of(uid: str, view: View, settings: PlacementSettings) -> Holdback | None:
    """What is remembered of this workload, by UID; None where nothing is, or nothing readable."""
    shard = view[settings.memory].get(settings.namespace, shard_name(uid))
    text = shard.data.get(uid) if shard is not None else None
    return _read(text) if text is not None else None


def held_back(
    uid: str, replicas: Iterable[Replica], view: View, now: datetime, settings: PlacementSettings
) -> Blocker | None:
    """Why no further replica of this workload may be sent to spot now, or None. `replicas` are all of the workload's."""
    record = holdback_of(uid, view, settings)
    if record is None or record.forgotten(now):
        return None
    if now < record.until:
        message = f"spot ran short at {record.since:%H:%M:%S} UTC, for the {record.shortages}. time in a row"
        return Blocker("SpotHeldBack", message, record.until)
    sent = [replica for replica in replicas if marked_class(replica.pod) is CapacityClass.SPOT]
    waiting = next((replica.pod.name for replica in sent if not replica.bound), None)
    if waiting is None or _back(record, sent):
        return None
    return Blocker("SpotReturning", f"pod {waiting} waits to show whether spot is back; one is sent at a time")


def one_at_a_time(
    uid: str, replicas: Iterable[Replica], view: View, now: datetime, settings: PlacementSettings
) -> bool:
    """Whether it is not shown yet that spot is back after a shortage."""
    record = holdback_of(uid, view, settings)
    return record is not None and not record.forgotten(now) and not _back(record, replicas)


def _back(record: Holdback, replicas: Iterable[Replica]) -> bool:
    """Whether a replica that was sent to spot since the pause has found a node there."""
    return any(
        replica.bound and marked_class(replica.pod) is CapacityClass.SPOT and _created(replica) >= record.until
        for replica in replicas
    )


def hold_back(
    uid: str, view: View, now: datetime, settings: PlacementSettings, *, workload: Key, why: Reason
) -> Create | Patch:
    """Write down that spot ran short now, and strike out what is long past."""
    before = holdback_of(uid, view, settings)
    shortages = before.shortages + 1 if before is not None and not before.forgotten(now) else 1
    record = Holdback(workload, now, now + pause(shortages), shortages)
    data: dict[str, str | None] = {uid: msgspec.json.encode(record).decode()}
    name = shard_name(uid)
    shard = view[settings.memory].get(settings.namespace, name)
    if shard is None:
        body = {"metadata": {"labels": {LABEL: KIND}}, "data": data}
        return Create(settings.memory, settings.namespace, name, body, why)
    for other, text in shard.data.items():
        if other != uid and ((old := _read(text)) is None or old.forgotten(now)):
            data[other] = None
    return Patch(Ref.to(settings.memory, shard), {"data": data}, why)


def shard_name(uid: str) -> str:
    return f"plimsoll-{KIND}-{hashlib.sha256(uid.encode()).digest()[0] % SHARDS:x}"


def _created(replica: Replica) -> datetime:
    created = replica.pod.metadata.creation_timestamp
    return created if created is not None else datetime.min.replace(tzinfo=UTC)


def workloads_in(shard: ConfigMap) -> Iterator[Key]:
    """Whose shortages are written down there."""
    if shard.labels.get(LABEL) == KIND:
        for text in shard.data.values():
            if (record := _read(text)) is not None:
                yield record.workload


@lru_cache(maxsize=4096)  # every look at a workload reads the same few texts again
def _read(text: str) -> Holdback | None:
    try:
        return msgspec.json.decode(text, type=Holdback)
    except msgspec.MsgspecError:
        return None  # edited by hand: forgetting a pause costs one early try
