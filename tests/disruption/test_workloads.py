"""Which pods belong to a workload: by the owner's UID and by namespace, because an ownerReference can be forged."""

from __future__ import annotations

import pytest

from plimsoll.disruption.last_ready import last_ready_blocker
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import DEPLOYMENTS, PODS, REPLICASETS, STATEFULSETS
from plimsoll.kube.workloads import active, owner_of, pods_of
from tests import build


def view_with(*objects: KubeObject) -> View:
    kinds = {"Pod": PODS, "ReplicaSet": REPLICASETS, "Deployment": DEPLOYMENTS, "StatefulSet": STATEFULSETS}
    return View.of(
        {resource: [one for one in objects if type(one).__name__ == kind] for kind, resource in kinds.items()}
    )


def test_a_pod_of_another_namespace_that_names_the_owner_is_no_replica() -> None:
    """A tenant who forges the UID must not make the last ready replica of somebody else look replaceable."""
    deployment = build.deployment("web", namespace="shop")
    replica_set = build.replica_set("web-1", namespace="shop", owner=deployment)
    own = build.pod("web-1-a", namespace="shop", owner=replica_set)
    forged = build.pod("web-1-b", namespace="tenant", owner=replica_set)
    view = view_with(deployment, replica_set, own, forged)
    assert pods_of(deployment, view) == (own,)
    assert pods_of(replica_set, view) == (own,)
    owner = owner_of(own, view)
    assert owner.pods == (own,)
    assert last_ready_blocker(own, owner.key, owner.pods) is not None


def test_a_forged_replica_set_does_not_join_a_deployment() -> None:
    deployment = build.deployment("web", namespace="shop")
    forged = build.replica_set("web-9", namespace="tenant", owner=deployment)
    pod = build.pod("web-9-a", namespace="tenant", owner=forged)
    assert pods_of(deployment, view_with(deployment, forged, pod)) == ()


def test_a_namesake_that_was_created_again_has_other_pods() -> None:
    before, after = build.stateful_set("db"), build.stateful_set("db")
    old, new = build.pod("db-0", owner=before), build.pod("db-1", owner=after)
    view = view_with(after, old, new)
    assert pods_of(after, view) == (new,)
    assert owner_of(old, view).replicas is None


@pytest.mark.parametrize(
    ("pod", "counts"),
    [
        (build.pod(), True),
        (build.pod(ready=False), True),
        (build.pod(phase="Pending", node=""), True),
        (build.pod(terminating=True), False),
        (build.pod(phase="Succeeded"), False),
        (build.pod(phase="Failed"), False),
    ],
)
def test_active(pod: object, counts: bool) -> None:
    assert active(pod) is counts  # type: ignore[arg-type]
