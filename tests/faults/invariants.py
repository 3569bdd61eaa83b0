"""The rules of safety as assertions: over all requests that were sent, and over all revisions that the store ever had."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from plimsoll.kube.cache.store import View, is_older
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import Resource
from tests.faults.example import SEEN
from tests.faults.history import History
from tests.faults.record import Exchange, Record
from tests.faults.scene import Scene, is_ready
from tests.faults.upstream import Json


def evictions(record: Record, *, since: int = 0) -> list[Exchange]:
    return record.of(lambda call: call.evicts, since=since)


def destructive_acts_name_a_uid(record: Record) -> None:
    """S8, S4: whatever removes something says which one, and pods are never deleted."""
    for exchange in record.of(lambda call: call.destroys):
        assert exchange.call.required_uid, f"only a name: {exchange}"
        assert exchange.call.evicts or exchange.call.resource != "pods", f"a pod was deleted: {exchange}"


def changes_insist_on_what_was_seen(record: Record) -> None:
    """S3, S9: a patch of someone's object carries UID and resourceVersion, so a late one is harmless."""
    for exchange in record.of(lambda call: call.verb == "patch" and call.resource == "pods"):
        assert exchange.call.required_uid, f"no UID: {exchange}"
        assert exchange.call.required_version, f"no resourceVersion: {exchange}"


def one_pod_at_a_time(scene: Scene, name: str = "web", *, replicas: int = 3) -> None:
    """S4: without a budget, at most one pod of an owner is missing."""
    pods_missing_at_most(scene, name, replicas=replicas, missing=1)


def pods_missing_at_most(scene: Scene, name: str, *, replicas: int, missing: int) -> None:
    """S4: at every revision since all pods of the owner were ready, so many are left."""
    complete = False
    pods = scene.path("pods")
    for revision, state in scene.history.states():
        if revision.collection != pods:
            continue
        ready = sum(
            is_ready(pod)
            for place, pod in state.items()
            if place[0] == pods and pod["metadata"]["labels"].get("app") == name
        )
        complete = complete or ready == replicas
        assert not complete or ready >= replicas - missing, f"{ready} of {replicas} pods of {name} left at {revision}"


def created_once(history: History, collection: str, name: str) -> None:
    """S10: one need, one object, however many replies were lost."""
    made = [
        one for one in history.revisions(collection) if one.change == "ADDED" and one.object["metadata"]["name"] == name
    ]
    assert len(made) == 1, f"made {len(made)} times: {', '.join(map(str, made))}"


def pods_were_marked_once(history: History, collection: str) -> None:
    """L2, L3: no pod's mark was written twice, nor taken away."""
    marks: dict[str, list[str]] = {}
    for revision in history.revisions(collection):
        mark = (revision.object["metadata"].get("annotations") or {}).get(SEEN, "")
        seen = marks.setdefault(revision.uid, [])
        if not seen or seen[-1] != mark:
            seen.append(mark)
    for uid, seen in marks.items():
        assert [mark for mark in seen if mark] in ([], [uid]), f"the marks of pod {uid} were {seen}"


def evicted_once(record: Record) -> None:
    """L3: no pod was made to leave twice."""
    uids = [exchange.call.required_uid for exchange in evictions(record) if exchange.applied]
    assert len(uids) == len(set(uids)), f"evicted more than once: {uids}"


def listed_before_destroying(record: Record, resources: Iterable[str] = ("pods", "configmaps", "nodes")) -> None:
    """S11: in each life of the operator, a list that no cache may answer comes before anything is destroyed."""
    listed: dict[str, set[str]] = {}
    for exchange in record:
        call = exchange.call
        if call.verb == "list" and exchange.told == 200 and "resourceVersion" not in call.params:
            listed.setdefault(call.link, set()).add(call.resource)
        if call.destroys:
            missing = set(resources) - listed.get(call.link, set())
            assert not missing, f"{', '.join(missing)} were not listed before {exchange}"


class NeverBackwards:
    """S11: what the view shows of an object never gets older; entered as a listener of every store."""

    def __init__(self, view: View) -> None:
        self.violations: list[str] = []
        for store in view.stores():
            store.listen(self._changed)

    def _changed(self, resource: Resource[Any], before: KubeObject | None, after: KubeObject | None) -> None:
        if before is not None and after is not None:
            old, new = before.metadata.resource_version, after.metadata.resource_version
            if is_older(new, old):
                self.violations.append(f"{resource.key(after)} went from {old} back to {new}")


def all_of(scene: Scene, name: str = "web", *, replicas: int = 3) -> None:
    """What holds in every test of this suite, whatever the fault."""
    destructive_acts_name_a_uid(scene.record)
    changes_insist_on_what_was_seen(scene.record)
    one_pod_at_a_time(scene, name, replicas=replicas)
    evicted_once(scene.record)
    pods_were_marked_once(scene.history, scene.path("pods"))
    listed_before_destroying(scene.record)


def holder_of(lease: Json | None) -> str:
    spec: Mapping[str, Any] = (lease or {}).get("spec", {})
    return str(spec.get("holderIdentity") or "")
