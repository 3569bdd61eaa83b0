"""A key waits until the view has shown what was written for it."""

from __future__ import annotations

from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import LEASES, PODS, Key
from plimsoll.runtime.decision import Ref
from plimsoll.runtime.expectations import Expectations
from tests import build

KEY = Key("Deployment", "default", "web")


def test_a_write_is_awaited_until_the_view_has_it():
    pod = build.pod("a", resourceVersion="100")
    view, writes = View.of({PODS: [pod]}), Expectations()
    writes.wrote(KEY, Ref.to(PODS, pod), "105")
    assert writes.behind(KEY, view) == Ref.to(PODS, pod)
    assert writes.behind(Key("Deployment", "default", "other"), view) is None
    view[PODS].put(build.pod("a", uid=pod.uid, resourceVersion="105"))
    assert writes.behind(KEY, view) is None


def test_versions_are_compared_as_numbers():
    pod = build.pod("a", resourceVersion="99")
    view, writes = View.of({PODS: [pod]}), Expectations()
    writes.wrote(KEY, Ref.to(PODS, pod), "100")
    assert writes.behind(KEY, view) is not None
    view[PODS].put(build.pod("a", uid=pod.uid, resourceVersion="1000"))
    assert writes.behind(KEY, view) is None


def test_an_object_made_and_gone_again_is_shown_by_the_progress_of_its_kind():
    pod = build.pod("a", resourceVersion="100")
    view, writes = View.of({PODS: []}), Expectations()
    view[PODS].resource_version = "99"
    writes.wrote(KEY, Ref.to(PODS, pod), "100")
    assert writes.behind(KEY, view) is not None
    view[PODS].resource_version = "120"
    assert writes.behind(KEY, view) is None


def test_a_removal_is_shown_when_the_object_is_leaving_gone_or_someone_else():
    pod = build.pod("a")
    for after in (None, build.pod("a", uid=pod.uid, terminating=True), build.pod("a")):
        view, writes = View.of({PODS: [pod]}), Expectations()
        writes.removed(KEY, Ref.to(PODS, pod))
        assert writes.behind(KEY, view) is not None
        view[PODS].remove("default", "a")
        if after is not None:
            view[PODS].put(after)
        assert writes.behind(KEY, view) is None


def test_all_writes_of_a_key_are_awaited():
    pods = [build.pod(name, resourceVersion="100") for name in "ab"]
    view, writes = View.of({PODS: pods}), Expectations()
    for pod in pods:
        writes.wrote(KEY, Ref.to(PODS, pod), "110")
    view[PODS].put(build.pod("a", uid=pods[0].uid, resourceVersion="110"))
    behind = writes.behind(KEY, view)
    assert behind is not None
    assert behind.name == "b"


def test_a_kind_that_nobody_decides_on_is_not_awaited():
    writes = Expectations()
    writes.wrote(KEY, Ref(LEASES, "default", "x", "uid"), "5")
    assert writes.behind(KEY, View.of({PODS: []})) is None


def test_versions_that_are_no_numbers_are_compared_as_they_are():
    pod = build.pod("a", resourceVersion="old")
    view, writes = View.of({PODS: [pod]}), Expectations()
    writes.wrote(KEY, Ref.to(PODS, pod), "new")
    assert writes.behind(KEY, view) is not None
    view[PODS].put(build.pod("a", uid=pod.uid, resourceVersion="new"))
    assert writes.behind(KEY, view) is None
