"""A ReplicaSet that creates pods, and a webhook that answers, without anything between them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from plimsoll.controllers.placement.admission.classify import (
    AdmissionRequest,
    AdmissionResult,
    ClassAssigned,
    PodClassifier,
)
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spec import ENABLED, MIN_ON_DEMAND, SPOT_PERCENTAGE
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.kube.cache.store import View
from plimsoll.kube.codec import convert
from plimsoll.kube.types.apps import Deployment, ReplicaSet, StatefulSet
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import DEPLOYMENTS, NODES, PODS, REPLICASETS, STATEFULSETS
from tests import build

SPOT, ON_DEMAND = CapacityClass.SPOT, CapacityClass.ON_DEMAND
SPOT_LABEL = {"karpenter.sh/capacity-type": "spot"}


def asking(spot: str = "70%", minimum: str = "0") -> dict[str, str]:
    return {ENABLED: "true", SPOT_PERCENTAGE: spot, MIN_ON_DEMAND: minimum}


def review(
    owner: KubeObject | None,
    *,
    name: str = "",
    operation: str = "CREATE",
    dry_run: bool = False,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    **metadata: Any,
) -> AdmissionRequest:
    """What the API server asks about a pod: no UID yet, and from a ReplicaSet no name."""
    meta: dict[str, Any] = {"annotations": dict(annotations or {}), **metadata}
    meta |= {"name": name} if name else {"generateName": "web-1-"}
    if owner is not None:
        meta["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": type(owner).__name__,
                "name": owner.name,
                "uid": owner.uid,
                "controller": True,
            }
        ]
    pod = {"metadata": meta, "spec": dict(spec or {})}
    body = {"uid": "r1", "operation": operation, "namespace": "default", "dryRun": dry_run, "object": pod}
    return convert(body, AdmissionRequest)


class Scene:
    """One workload, the view of it, and the answers."""

    def __init__(
        self, *objects: KubeObject, nodes: tuple[Node, ...] = (), settings: PlacementSettings | None = None
    ) -> None:
        kinds = {Deployment: DEPLOYMENTS, ReplicaSet: REPLICASETS, StatefulSet: STATEFULSETS, Pod: PODS}
        found: dict[Any, list[KubeObject]] = {kind: [] for kind in (*kinds.values(), NODES)}
        for obj in objects:
            found[kinds[type(obj)]].append(obj)
        found[NODES] = list(nodes)
        self.view = View.of(found)
        self.settings = settings or PlacementSettings()
        self.admission = PodClassifier(self.view, self.settings)
        self.now_seconds = 0.0
        self._tokens = (f"t{number}" for number in itertools.count(1))

    def ask(self, request: AdmissionRequest, **options: Any) -> AdmissionResult:
        return self.admission.answer(request, build.START, self.now_seconds, token=next(self._tokens), **options)

    def admit(self, owner: KubeObject, **options: Any) -> ClassAssigned:
        answer = self.ask(review(owner), **options)
        assert isinstance(answer, ClassAssigned), answer
        return answer

    def would_get(self, owner: KubeObject) -> CapacityClass:
        """The class that the next pod would get, asked without a trace."""
        answer = self.ask(review(owner, dry_run=True))
        assert isinstance(answer, ClassAssigned), answer
        return answer.assignment.capacity_class

    def appear(self, owner: KubeObject, assigned: ClassAssigned, *, node: str = "") -> Pod:
        """The pod was created, and the view shows it."""
        pod = build.pod(owner=owner, node=node, phase="Pending", annotations=annotations_of(assigned))
        self.view[PODS].put(pod)
        return pod


def annotations_of(assigned: ClassAssigned) -> dict[str, str]:
    assignment = assigned.assignment
    return {
        "plimsoll.dev/placement-class": assignment.capacity_class.value,
        "plimsoll.dev/placement-reason": assignment.why.value,
        "plimsoll.dev/placed-by": assignment.placed_by,
        "plimsoll.dev/placement-token": assignment.token,
    }


def workload(replicas: int = 10, spot: str = "70%", minimum: str = "0", **more: Any) -> tuple[Deployment, ReplicaSet]:
    deployment = build.deployment(replicas=replicas, annotations=asking(spot, minimum), **more)
    return deployment, build.replica_set(replicas=replicas, owner=deployment)
