"""The Priority admission plug-in: resolves a pod's `priorityClassName`."""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll.embedded_cluster.api.json_documents import Json, at, name_of
from plimsoll.embedded_cluster.api.kinds import PODS, PRIORITY_CLASSES
from plimsoll.embedded_cluster.api.status import forbidden_in
from plimsoll.embedded_cluster.api.storage import Storage

# Every cluster has these.
_SYSTEM: Mapping[str, int] = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def resolve_priority(storage: Storage, pod: Json) -> Json:
    """The pod with the priority of its PriorityClass; raises StatusError if the class does not exist."""
    name = at(pod, "spec", "priorityClassName", default="")
    if name in _SYSTEM:
        return _with(pod, {"priority": _SYSTEM[name]})
    found = storage.get(PRIORITY_CLASSES, "", name) if name else _default(storage)
    if found is not None:
        policy = found.get("preemptionPolicy", "PreemptLowerPriority")
        chosen = {"priority": found.get("value", 0), "preemptionPolicy": policy, "priorityClassName": name_of(found)}
        return _with(pod, chosen)
    if name:
        raise forbidden_in(PODS, name_of(pod), f"no PriorityClass with name {name} was found")
    return pod


def _default(storage: Storage) -> Json | None:
    classes = [one for one in storage.collection(PRIORITY_CLASSES).all() if one.get("globalDefault")]
    return min(classes, key=lambda one: one.get("value", 0), default=None)


def _with(pod: Json, chosen: Json) -> Json:
    return {**pod, "spec": {**pod["spec"], **chosen}}
