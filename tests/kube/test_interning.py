"""What is equal in the replicas of an owner is held once, and nothing that an object says changes by it."""

from __future__ import annotations

import gc
import json
import tracemalloc
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.informer import objects
from plimsoll.kube.cache.interning import intern_parts
from plimsoll.kube.cache.store import Store
from plimsoll.kube.codec import decode, encode
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.meta import CustomObject
from plimsoll.kube.types.resources import BY_OWNER, DEPLOYMENTS, NODES, PODS, REPLICASETS, Resource


def arrive(store: Store[Any], body: dict[str, Any]) -> Any:
    """As a reflector takes an object in."""
    obj = decode(json.dumps(body).encode(), store.resource.type)
    intern_parts(obj, store)
    store.put(obj)
    return obj


def replicas(count: int, owner: str = "rs-uid") -> list[dict[str, Any]]:
    bodies = []
    for number, (pod, status) in enumerate(objects.pods(1, owner, nodes=3, count=count)):
        pod["metadata"] |= {"uid": f"{owner}-{number}", "resourceVersion": str(number + 1)}
        bodies.append({**pod, "status": status})
    return bodies


def test_siblings_share_their_template():
    store = Store(PODS)
    first, second = (arrive(store, body) for body in replicas(2))
    assert second.spec.containers is first.spec.containers
    assert second.spec.init_containers is first.spec.init_containers
    assert second.spec.affinity is first.spec.affinity
    assert second.spec.tolerations is first.spec.tolerations
    assert second.spec.topology_spread_constraints is first.spec.topology_spread_constraints
    assert second.metadata.labels is first.metadata.labels
    assert second.metadata.annotations is first.metadata.annotations
    assert second.metadata.owner_references is first.metadata.owner_references
    assert second.metadata.namespace is first.metadata.namespace


def test_of_what_differs_the_equal_parts_are_shared():
    store = Store(PODS)
    first, second, third = (arrive(store, body) for body in replicas(3))
    *template, token = second.spec.volumes
    assert token != first.spec.volumes[-1]
    assert all(mine is other for mine, other in zip(template, first.spec.volumes, strict=False))
    assert second.status.conditions != third.status.conditions
    for mine, other in zip(second.status.conditions, third.status.conditions, strict=True):
        assert mine.type is other.type
        assert mine.status is other.status


def test_node_names_and_namespaces_are_shared_by_strangers():
    store = Store(PODS)
    one, other = replicas(1, "rs-1")[0], replicas(1, "rs-2")[0]
    other["metadata"]["name"] = "other"
    first, second = arrive(store, one), arrive(store, other)
    assert first.spec.node_name is second.spec.node_name
    assert first.metadata.namespace is second.metadata.namespace


def test_replicas_of_two_shapes_share_with_the_first_or_the_last():
    store = Store(PODS)
    bodies = replicas(6)
    for body, shape in zip(bodies, ("spot", "spot", "on-demand", "on-demand", "spot", "spot"), strict=True):
        body["spec"] = {**body["spec"], "nodeSelector": {"class": shape}}
    pods = [arrive(store, body) for body in bodies]
    assert len({id(pod.spec.node_selector) for pod in pods}) == 2
    assert len({id(pod.spec.containers) for pod in pods}) == 1


def test_a_new_version_shares_with_the_old_one():
    store = Store(PODS)
    (body,) = replicas(1)
    old = arrive(store, body)
    body["metadata"] |= {"resourceVersion": "99", "annotations": {"new": "one"}}
    new = arrive(store, body)
    assert new.metadata.annotations == {"new": "one"}
    assert new.spec.containers is old.spec.containers
    assert new.status.conditions is old.status.conditions
    assert old.metadata.annotations != new.metadata.annotations, "what was there before is left alone"


def test_a_namesake_with_another_uid_is_no_relative():
    store = Store(NODES)
    old = arrive(store, {"metadata": {"name": "n", "uid": "1", "labels": {"a": "b"}}})
    new = arrive(store, {"metadata": {"name": "n", "uid": "2", "labels": {"a": "b"}}})
    assert new.metadata.labels == old.metadata.labels
    assert new.metadata.labels is not old.metadata.labels


def test_revisions_of_a_deployment_share_their_template():
    store = Store(REPLICASETS)
    first, second = (arrive(store, objects.replicaset(1, revision, "deployment-uid")) for revision in (1, 2))
    assert first.spec.template.metadata.labels != second.spec.template.metadata.labels
    assert second.spec.template.spec.containers is first.spec.template.spec.containers
    assert second.spec.template.spec.affinity is first.spec.template.spec.affinity


def test_kinds_without_owners():
    store = Store(DEPLOYMENTS)
    body = objects.deployment(1)
    body["metadata"]["uid"] = "1"
    old = arrive(store, body)
    new = arrive(store, {**body, "status": {"replicas": 3}})
    assert new.spec.template is old.spec.template


def test_the_free_json_of_custom_resources_is_left_alone():
    """1, 1.0 and true are equal in Python, and not in JSON."""
    store: Store[Any] = Store(Resource("example.com", "v1", "things", "Thing", CustomObject))
    arrive(store, {"metadata": {"name": "t", "uid": "1", "labels": {"a": "b"}}, "spec": {"on": True}})
    new = arrive(store, {"metadata": {"name": "t", "uid": "1", "labels": {"a": "b"}}, "spec": {"on": 1}})
    assert encode(new.spec) == b'{"on":1}'


def test_nothing_is_left_of_owners_that_are_gone():
    """Structs are not tracked by the garbage collector, so what is left is counted by the memory that it takes."""
    store = Store(PODS)

    def come_and_go(owners: range) -> int:
        for number in owners:
            bodies = replicas(3, f"rs-{number}")
            for body in bodies:
                body["metadata"]["annotations"] = {"large": f"{number}" * 1000}
                arrive(store, body)
            for body in bodies:
                store.remove(body["metadata"]["namespace"], body["metadata"]["name"])
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = come_and_go(range(20))
        after = come_and_go(range(20, 80))
    finally:
        tracemalloc.stop()
    assert len(store) == 0
    assert store.values(BY_OWNER) == ()
    assert after - before < 60_000, "60 owners with 2 kB each, or more, would be 120 kB"


labels = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=3)
containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(("main", "proxy"))},
        optional={"resources": st.sampled_from(({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}, "limits": {}}))},
    ),
    max_size=3,
)
conditions = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(("Ready", "Initialized")), "status": st.sampled_from(("True", "False"))},
        optional={"reason": st.sampled_from(("", "Late")), "lastTransitionTime": st.just("2026-01-01T00:00:00Z")},
    ),
    max_size=3,
)
volumes = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(("a", "b"))}, optional={"emptyDir": st.sampled_from(({}, {"sizeLimit": "1Gi"}))}
    ),
    max_size=3,
)
affinities: st.SearchStrategy[Any] = st.sampled_from(
    (
        None,
        {"nodeAffinity": None},
        {"podAffinity": {}},
        {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    )
)
any_pod = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {
                "name": st.sampled_from(("p1", "p2", "p3")),
                "uid": st.sampled_from(("u1", "u2")),
                "labels": labels,
                "ownerReferences": st.sampled_from(
                    ([], [{"kind": "ReplicaSet", "name": "r", "uid": "o", "controller": True}])
                ),
            }
        ),
        "spec": st.fixed_dictionaries(
            {
                "containers": containers,
                "volumes": volumes,
                "affinity": affinities,
                "nodeName": st.sampled_from(("", "n")),
            }
        ),
        "status": st.fixed_dictionaries({"conditions": conditions}),
    }
)


@given(st.lists(any_pod, min_size=2, max_size=8))
def test_objects_say_what_they_said(bodies):
    """Both the one that arrives and those that it shares with."""
    store = Store(PODS)
    arrived = []
    for body in bodies:
        alone = encode(decode(json.dumps(body).encode(), Pod))
        arrived.append((arrive(store, body), alone))
        for pod, said in arrived:
            assert msgspec.json.decode(encode(pod)) == msgspec.json.decode(said)
