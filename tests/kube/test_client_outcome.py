"""Is what is there what we wanted? Compared field by field, when a reply was lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.embedded_cluster.api.patches import merge_patched
from plimsoll.kube.client.lost_replies import json_patch_holds, merge_holds

LIVE: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"app": "web", "tier": "front"}},
    "spec": {"replicas": 3, "ports": [{"port": 80, "protocol": "TCP"}], "paused": True},
}


@pytest.mark.parametrize(
    ("wanted", "holds"),
    [
        ({}, True),
        ({"metadata": {"labels": {"app": "web"}}}, True),
        ({"metadata": {"labels": {"app": "api"}}}, False),
        ({"metadata": {"labels": {"app": None}}}, False),
        ({"metadata": {"labels": {"zone": None}}}, True),
        ({"metadata": {"annotations": {"x": None}}}, True),
        ({"metadata": {"annotations": {"x": "1"}}}, False),
        ({"metadata": {"annotations": {}}}, True),
        ({"spec": {"replicas": 3}}, True),
        ({"spec": {"replicas": "3"}}, False),
        ({"spec": {"replicas": 0}}, False),
        ({"spec": {"paused": 1}}, False),  # True == 1 in Python, not in JSON
        ({"spec": {"minReadySeconds": 0}}, True),  # zero values are left out
        ({"spec": {"ports": [{"port": 80}]}}, True),  # what the server added by default
        ({"spec": {"ports": []}}, False),
        ({"spec": {"ports": [{"port": 80}, {"port": 81}]}}, False),
        ({"spec": {"hosts": []}}, True),
        ({"spec": "x"}, False),
        ({"spec": {"replicas": {"min": 1}}}, False),
    ],
)
def test_merge(wanted: dict[str, Any], holds: bool) -> None:
    assert merge_holds(LIVE, wanted) is holds


@pytest.mark.parametrize(
    ("operations", "holds"),
    [
        ([{"op": "test", "path": "/metadata/uid", "value": "anything"}], True),
        ([{"op": "replace", "path": "/spec/replicas", "value": 3}], True),
        ([{"op": "replace", "path": "/spec/replicas", "value": 4}], False),
        ([{"op": "add", "path": "/metadata/labels/app", "value": "web"}], True),
        ([{"op": "add", "path": "/metadata/labels/a~1b", "value": "web"}], False),
        ([{"op": "remove", "path": "/metadata/labels/zone"}], True),
        ([{"op": "remove", "path": "/metadata/annotations/zone"}], True),
        ([{"op": "remove", "path": "/metadata/labels/app"}], False),
        ([{"op": "replace", "path": "/spec/ports/0/port", "value": 80}], True),
        ([{"op": "replace", "path": "/spec/ports/0/port", "value": 81}], False),
        ([{"op": "replace", "path": "/spec/ports/7/port", "value": 80}], False),
        ([{"op": "add", "path": "/spec/ports/-", "value": {"port": 80}}], False),  # cannot be recognised again
        ([{"op": "remove", "path": "/spec/ports/1"}], False),
        ([{"op": "move", "from": "/spec/a", "path": "/spec/replicas"}], False),
    ],
)
def test_json_patch(operations: list[dict[str, Any]], holds: bool) -> None:
    assert json_patch_holds(LIVE, operations) is holds


def test_a_slash_in_a_name_is_escaped_in_a_pointer() -> None:
    live = {"metadata": {"annotations": {"example.com/~x": "1"}}}
    assert json_patch_holds(live, [{"op": "add", "path": "/metadata/annotations/example.com~1~0x", "value": "1"}])


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=60)
@given(
    live=st.dictionaries(st.sampled_from("abc"), documents), patch=st.dictionaries(st.sampled_from("abc"), documents)
)
def test_a_merge_patch_that_was_applied_always_holds(live: dict[str, Any], patch: dict[str, Any]) -> None:
    assert merge_holds(merge_patched(live, patch), patch)


@settings(max_examples=60)
@given(
    live=st.dictionaries(st.sampled_from("abc"), documents),
    patch=st.dictionaries(st.sampled_from("abc"), st.text(min_size=1)),
)
def test_a_patch_that_would_change_something_does_not_hold(live: dict[str, Any], patch: dict[str, str]) -> None:
    assert merge_holds(live, patch) == (merge_patched(live, patch) == live)
