"""A stream of bytes as events: lines wherever chunks end, and what each line says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.kube.cache.quarantine import Undecodable
from plimsoll.kube.cache.watch import MAX_LINE_BYTES, Bookmark, Event, EventDecoder, Lines, QuarantinedEvent
from plimsoll.kube.client.errors import ApiError, Gone, MalformedResponse
from plimsoll.kube.types.resources import PODS

PIECES = st.lists(st.binary(max_size=6).map(lambda piece: piece.replace(b"x", b"\n")), max_size=30)


@given(PIECES)
def test_lines_are_those_of_the_whole(pieces):
    lines = Lines()
    found = [line for piece in pieces for line in lines.feed(piece)]
    assert found == [line for line in b"".join(pieces).split(b"\n")[:-1] if line]


def test_a_line_without_end_is_not_waited_for():
    lines = Lines()
    lines.feed(bytes(MAX_LINE_BYTES))
    with pytest.raises(MalformedResponse, match="exceeds"):
        lines.feed(b"x")


def line(kind: str, obj: object, *, object_first: bool = False) -> bytes:
    event = {"object": obj, "type": kind} if object_first else {"type": kind, "object": obj}
    return json.dumps(event, separators=(",", ":")).encode()


BOOKMARK = {
    "kind": "Pod",
    "metadata": {"resourceVersion": "7", "creationTimestamp": None},
    "spec": {"containers": None},
}
LAST = {**BOOKMARK, "metadata": {"resourceVersion": "8", "annotations": {"k8s.io/initial-events-end": "true"}}}
EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
OVERLOADED = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcdserver: leader changed"}


@pytest.mark.parametrize("object_first", [False, True])
class TestEvents:
    def test_a_change(self, object_first):
        event = EventDecoder(PODS).decode(
            line("MODIFIED", {"metadata": {"name": "a"}, "spec": {"nodeName": "n"}}, object_first=object_first)
        )
        assert isinstance(event, Event)
        assert (event.type, event.object.name, event.object.spec.node_name) == ("MODIFIED", "a", "n")

    def test_a_bookmark(self, object_first):
        decoder = EventDecoder(PODS)
        assert decoder.decode(line("BOOKMARK", BOOKMARK, object_first=object_first)) == Bookmark("7", False)
        assert decoder.decode(line("BOOKMARK", LAST, object_first=object_first)) == Bookmark("8", True)

    def test_an_error(self, object_first):
        with pytest.raises(Gone, match="watch pods: 410 Expired: too old resource version"):
            EventDecoder(PODS).decode(line("ERROR", EXPIRED, object_first=object_first))
        with pytest.raises(ApiError, match="leader changed"):
            EventDecoder(PODS).decode(line("ERROR", OVERLOADED, object_first=object_first))

    def test_an_object_beyond_our_types(self, object_first):
        odd = {"metadata": {"name": "odd", "namespace": "default"}, "spec": {"containers": "none", "nodeName": "n1"}}
        event = EventDecoder(PODS).decode(line("ADDED", odd, object_first=object_first))
        assert isinstance(event, QuarantinedEvent)
        assert (event.type, event.object.metadata.name, event.object.node_name) == ("ADDED", "odd", "n1")
        assert "Pod default/odd cannot be decoded" in event.object.problem

    def test_an_unknown_type(self, object_first):
        with pytest.raises(MalformedResponse, match="RENAMED"):
            EventDecoder(PODS).decode(line("RENAMED", {}, object_first=object_first))


def test_a_bookmark_that_marks_nothing():
    with pytest.raises(MalformedResponse, match="pods: not a bookmark"):
        EventDecoder(PODS).decode(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":7}}}')


def test_an_object_that_is_nested_too_deeply():
    deep = b'{"a":' * 5000 + b"1" + b"}" * 5000
    event = EventDecoder(PODS).decode(
        b'{"type":"ADDED","object":{"metadata":{"name":"a","managedFields":' + deep + b"}}}"
    )
    assert isinstance(event, QuarantinedEvent)
    assert event.object.metadata.name == "a"
    with pytest.raises(Undecodable, match="one of the pods has no readable metadata: it is nested too deeply"):
        EventDecoder(PODS).decode(b'{"type":"ADDED","object":{"metadata":{"managedFields":' + deep + b"}}}")


@pytest.mark.parametrize(
    "text", [b"<html></html>", b'{"type":"ADDED","object":{"metadata":{"na', b'{"type":"ADDED"}', b"[]"]
)
def test_what_is_no_event(text):
    with pytest.raises(MalformedResponse, match="pods: not a watch event"):
        EventDecoder(PODS).decode(text)
