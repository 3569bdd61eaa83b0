"""A small controller that uses every verb of the door, for faults to strike.

A workload annotated `example.plimsoll.dev/keep` gets one ConfigMap, `NAME-kept`, that holds its UID; each of its ready pods
is marked as seen; pods annotated `example.plimsoll.dev/leave: "true"` are asked to leave. When the annotation goes, or the
workload is another by now, the ConfigMap goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, ClassVar

from plimsoll.kube.cache.store import View
from plimsoll.kube.types.apps import Workload
from plimsoll.kube.types.core import ConfigMap, Pod
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import (
    BY_OWNER,
    CONFIGMAPS,
    DEPLOYMENTS,
    NODES,
    PODS,
    REPLICASETS,
    STATEFULSETS,
    Key,
    Resource,
    owner_key,
)
from plimsoll.kube.workloads import owner_of
from plimsoll.runtime.decision import (
    Action,
    Blocker,
    Create,
    Decision,
    Delete,
    Event,
    Evict,
    Patch,
    Permission,
    Reason,
    Ref,
)

KEEP = "example.plimsoll.dev/keep"
LEAVE = "example.plimsoll.dev/leave"
SEEN = "example.plimsoll.dev/seen"
OF_KIND = "example.plimsoll.dev/of-kind"
OF_NAME = "example.plimsoll.dev/of-name"

_WORKLOADS: dict[str, Resource[Any]] = {"Deployment": DEPLOYMENTS, "StatefulSet": STATEFULSETS}


class ExampleController:
    """Looks after the workloads of one namespace, so that tests can share a cluster."""

    name: ClassVar[str] = "example"
    watches: ClassVar[tuple[Resource[Any], ...]] = (DEPLOYMENTS, STATEFULSETS, REPLICASETS, PODS, NODES, CONFIGMAPS)
    permissions: ClassVar[tuple[Permission, ...]] = (
        Permission("", "pods", "patch"),
        Permission("", "pods/eviction", "create"),
        Permission("", "configmaps", "create"),
        Permission("", "configmaps", "delete"),
    )

    def __init__(self, namespace: str, *, last_first: bool = False) -> None:
        self._namespace = namespace
        self._last_first = last_first  # which pods leave first: two operators that differ here never pick the same one

    def keys(self, resource: Resource[Any], changed: KubeObject, view: View) -> Iterable[Key]:
        if changed.namespace != self._namespace:
            return ()
        if resource in _WORKLOADS.values():
            return (resource.key(changed),)
        if isinstance(changed, ConfigMap):
            kind, name = changed.labels.get(OF_KIND), changed.labels.get(OF_NAME)
            return (Key(kind, changed.namespace, name),) if kind and name else ()
        if isinstance(changed, Pod):
            owner = owner_of(changed, view).key
            return (owner,) if owner.kind in _WORKLOADS else ()
        if resource is REPLICASETS and (above := changed.metadata.controller) is not None:
            return (Key(above.kind, changed.namespace, above.name),)
        return ()

    def decide(self, key: Key, view: View, now: datetime) -> Decision:
        workload: Workload | None = view[_WORKLOADS[key.kind]].get(key.namespace, key.name)
        kept = view[CONFIGMAPS].get(key.namespace, kept_name(key.name))
        if workload is None or KEEP not in workload.annotations or workload.terminating:
            return _let_go(key, kept)
        if kept is not None and kept.data.get("uid") != workload.uid:
            return _let_go(key, kept)
        pods = sorted(_pods_of(workload, view), key=lambda pod: pod.name, reverse=self._last_first)
        leaving = [pod for pod in pods if pod.annotations.get(LEAVE) == "true" and not pod.terminating]
        actions: list[Action] = [] if kept is not None else [_keep(key, workload)]
        actions += [_mark(pod) for pod in pods if pod not in leaving and _to_be_marked(pod)]
        if leaving and not any(node.ready for node in view[NODES]):
            # An empty or unwell list of nodes says nothing about where the replacement would run.
            return Decision(
                reason=Reason("Waiting", "pods are to leave, and no ready node is known"),
                actions=tuple(actions),
                blockers=(Blocker("NoReadyNode", "no ready node is known"),),
                requeue_after=timedelta(seconds=1),
            )
        actions += [_ask_to_leave(pod, key) for pod in leaving]
        reason = Reason("Kept", f"{key} is kept") if not actions else Reason("Keeping", f"{len(actions)} steps to go")
        return Decision(reason=reason, actions=tuple(actions))


def kept_name(workload: str) -> str:
    return f"{workload}-kept"


def _pods_of(workload: Workload, view: View) -> Iterable[Pod]:
    yield from view[PODS].by(BY_OWNER, owner_key(workload.namespace, workload.uid))
    for replica_set in view[REPLICASETS].by(BY_OWNER, owner_key(workload.namespace, workload.uid)):
        yield from view[PODS].by(BY_OWNER, owner_key(workload.namespace, replica_set.uid))


def _keep(key: Key, workload: Workload) -> Create:
    why = Reason("NotKept", f"{key} is to be kept")
    body = {"metadata": {"labels": {OF_KIND: key.kind, OF_NAME: key.name}}, "data": {"uid": workload.uid}}
    event = Event(Ref.to(_WORKLOADS[key.kind], workload), "Kept", f"{key.name} is kept from now on")
    return Create(CONFIGMAPS, key.namespace, kept_name(key.name), body, why, event)


def _to_be_marked(pod: Pod) -> bool:
    return pod.ready and not pod.terminating and SEEN not in pod.annotations


def _mark(pod: Pod) -> Patch:
    return Patch(Ref.to(PODS, pod), {"metadata": {"annotations": {SEEN: pod.uid}}}, Reason("Ready", "it is ready"))


def _ask_to_leave(pod: Pod, workload: Key) -> Evict:
    return Evict(Ref.to(PODS, pod), workload, Reason("AskedToLeave", f"{LEAVE} is true"))


def _let_go(key: Key, kept: ConfigMap | None) -> Decision:
    if kept is None or OF_NAME not in kept.labels or kept.terminating:
        return Decision(reason=Reason("NotOurs", f"{key} is not to be kept"))
    why = Reason("NoLongerKept", f"{key} is not to be kept any more")
    return Decision(reason=why, actions=(Delete(Ref.to(CONFIGMAPS, kept), why),))
