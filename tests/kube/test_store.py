"""A store finds objects by name and by value, tells its listeners what changed, and knows old from new."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.kube.cache.store import Store, View, is_older
from plimsoll.kube.types.resources import BY_NODE, BY_OWNER, NODES, PODS, Index, by_label, owner_key
from tests import build

APP = by_label("app")


def listened(store: Store[Any]) -> list[tuple[Any, Any]]:
    heard: list[tuple[Any, Any]] = []
    store.listen(lambda _, before, after: heard.append((before, after)))
    return heard


def test_objects_by_name():
    store = Store(PODS)
    pod = build.pod("a")
    store.put(pod)
    assert store.get("default", "a") is pod
    assert store.get("default", "b") is None
    assert (list(store), len(store), store.names()) == ([pod], 1, {("default", "a")})


def test_an_object_moves_between_values_of_an_index():
    store = Store(PODS)
    store.put(build.pod("a", node="", uid="1"))
    assert store.by(BY_NODE, "n1") == ()
    bound = build.pod("a", node="n1", uid="1")
    store.put(bound)
    assert store.by(BY_NODE, "n1") == (bound,)
    moved = build.pod("a", node="n2", uid="1")
    store.put(moved)
    assert (store.by(BY_NODE, "n1"), store.by(BY_NODE, "n2")) == ((), (moved,))
    store.remove("default", "a")
    assert store.by(BY_NODE, "n2") == ()
    assert store.values(BY_NODE) == (), "values that nothing carries are forgotten"


def test_an_index_that_comes_later_knows_what_is_there():
    store = Store(PODS)
    pod = build.pod("a", labels={"app": "web"})
    store.put(pod)
    store.add_index(APP)
    assert store.by(APP, "web") == (pod,)
    later = build.pod("b", labels={"app": "web"})
    store.put(later)
    assert store.by(APP, "web") == (pod, later)


def test_an_index_may_yield_its_values():
    both = Index("both", lambda pod: (value for value in (pod.name, pod.spec.node_name)))
    store = Store(PODS)
    store.add_index(both)
    store.put(build.pod("a", node="n1", uid="1"))
    store.put(build.pod("a", node="n2", uid="1"))
    assert set(store.values(both)) == {"a", "n2"}


def test_the_ends_of_a_value_are_its_first_and_last():
    owner = build.replica_set()
    store = Store(PODS)
    pods = [build.pod(f"p{number}", owner=owner) for number in range(4)]
    assert store.ends(BY_OWNER, owner_key(owner.namespace, owner.uid)) == ()
    for pod in pods:
        store.put(pod)
    assert store.ends(BY_OWNER, owner_key(owner.namespace, owner.uid)) == (pods[0], pods[3])
    store.remove("default", "p0")
    store.remove("default", "p3")
    assert store.ends(BY_OWNER, owner_key(owner.namespace, owner.uid)) == (pods[1], pods[2])
    assert store.ends(APP, "web") == (), "an index that it does not have finds nothing"


def test_listeners_hear_before_and_after():
    store = Store(PODS)
    heard = listened(store)
    first, second = build.pod("a", uid="1"), build.pod("a", uid="1", node="n2")
    store.put(first)
    store.put(second)
    store.remove("default", "a")
    store.remove("default", "a")
    assert heard == [(None, first), (first, second), (second, None)]


def test_a_namesake_is_another_object():
    store = Store(PODS)
    first, second = build.pod("a", uid="1", node="n1"), build.pod("a", uid="2", node="n2")
    store.put(first)
    heard = listened(store)
    store.put(second)
    assert heard == [(first, None), (None, second)]
    assert store.by(BY_NODE, "n1") == ()


@pytest.mark.parametrize(
    ("held", "offered", "news"),
    [
        ({"uid": "1", "resourceVersion": "9"}, {"uid": "1", "resourceVersion": "10"}, True),
        ({"uid": "1", "resourceVersion": "10"}, {"uid": "1", "resourceVersion": "10"}, False),
        ({"uid": "1", "resourceVersion": "10"}, {"uid": "1", "resourceVersion": "9"}, False),
        ({"uid": "2", "resourceVersion": "10"}, {"uid": "1", "resourceVersion": "9"}, False),
        ({"uid": "1", "resourceVersion": "9"}, {"uid": "2", "resourceVersion": "10"}, True),
        ({"uid": "1", "resourceVersion": "b"}, {"uid": "1", "resourceVersion": "a"}, True),
        ({"uid": "1", "resourceVersion": "a"}, {"uid": "1", "resourceVersion": "a"}, False),
        ({"uid": "1", "resourceVersion": ""}, {"uid": "1", "resourceVersion": ""}, True),
    ],
)
def test_what_is_news(held, offered, news):
    store = Store(PODS)
    assert store.is_news(build.pod("a", **offered))
    store.put(build.pod("a", **held))
    assert store.is_news(build.pod("a", **offered)) is news


@pytest.mark.parametrize(("as_of", "goes"), [("9", False), ("10", True), ("11", True), ("unknown", True)])
def test_a_withdrawal_does_not_reach_what_is_newer(as_of, goes):
    store = Store(PODS)
    store.put(build.pod("a", resourceVersion="10"))
    assert store.withdraw("default", "a", as_of) is goes
    assert len(store) == (0 if goes else 1)
    assert not store.withdraw("default", "b", as_of)


@given(st.integers(0), st.integers(0))
def test_versions_are_compared_as_numbers(one, other):
    assert is_older(str(one), str(other)) == (one < other)


@given(st.text(max_size=4), st.text(max_size=4))
def test_of_two_versions_at_most_one_is_older(one, other):
    assert not (is_older(one, other) and is_older(other, one))


def test_a_view_names_the_kinds_that_are_not_live():
    view = View.of({PODS: [build.pod("a")], NODES: []})
    assert not view.stale
    view[PODS].synced = False
    assert list(view.stale) == ["pods"]
