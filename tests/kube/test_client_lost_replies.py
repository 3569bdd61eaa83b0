"""A write was sent and its reply is lost. Was it applied? What may be sent again, and what is the answer?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import Credentials
from plimsoll.kube.client.errors import (
    AlreadyExists,
    Ambiguous,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
    Unreachable,
)
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import CONFIGMAPS, metadata_of
from tests.kube.stub_server import (
    LOST,
    SILENT,
    Answer,
    Chunks,
    Reply,
    SkippingClock,
    StubServer,
    configmap,
    ok,
    refusal,
)

ONE = "/api/v1/namespaces/ns/configmaps/a"
ALL = "/api/v1/namespaces/ns/configmaps"
EVICTION = "/api/v1/namespaces/ns/pods/p/eviction"
BODY: Mapping[str, Any] = {"metadata": {"name": "a"}, "data": {"x": "1"}}

# Every way in which an answer can be missing or mean nothing.
DOUBTFUL = {
    "closed without a word": LOST,
    "broken off in the reply": Chunks((b'{"kind":',), end="broken"),
    "a gateway that lost it": Reply(502, b"<html>Bad Gateway</html>"),
    "a gateway without a backend": Reply(503, b"no healthy upstream"),
    "time ran out in the server": refusal(504, "Timeout"),
    "time ran out in etcd": refusal(500, "ServerTimeout"),
    "an error of etcd": refusal(500, "", "etcdserver: request timed out"),
    "a panic": Reply(500, b"This request caused apiserver to panic."),
}
doubtful = pytest.mark.parametrize("answer", DOUBTFUL.values(), ids=DOUBTFUL.keys())


# ── without a guard: never again ─────────────────────────────────────────────────────────────────────────────────────


@doubtful
async def test_an_unguarded_write_is_sent_once_and_ambiguous(stub: StubServer, client: Client, answer: Answer) -> None:
    stub.on("POST", ALL, answer)
    stub.on("PATCH", ONE, answer)
    with pytest.raises(Ambiguous, match="create configmaps ns"):
        await client.create(CONFIGMAPS, "ns", {"metadata": {"generateName": "a-"}})
    with pytest.raises(Ambiguous, match="patch configmaps ns/a"):
        await client.patch(CONFIGMAPS, "ns", "a", {"data": {"x": "1"}}, uid="u1")
    assert stub.calls() == [f"POST {ALL}", f"PATCH {ONE}"]


@doubtful
async def test_an_eviction_is_sent_once_and_ambiguous(stub: StubServer, client: Client, answer: Answer) -> None:
    stub.on("POST", EVICTION, answer)
    with pytest.raises(Ambiguous, match="evict pod ns/p"):
        await client.evict("ns", "p", uid="u1")
    assert len(stub.seen) == 1


async def test_a_write_that_is_never_answered_is_ambiguous(stub: StubServer) -> None:
    async with Client(Credentials(stub.url), clock=SkippingClock(), timeout_seconds=1) as client:
        stub.on("GET", ONE, ok(configmap()))
        await client.get(CONFIGMAPS, "ns", "a")  # the connection is open: what times out is the answer
        stub.on("PATCH", ONE, SILENT)
        with pytest.raises(Ambiguous, match="no answer in time"):
            await client.patch(CONFIGMAPS, "ns", "a", {"data": {"x": "1"}})


async def test_a_kept_connection_that_the_server_closes_under_a_delete_is_no_silent_repeat(
    stub: StubServer, client: Client
) -> None:
    """aiohttp would send a DELETE again by itself, and the answer to the second would pass for that to the first."""
    stub.on("GET", ONE, ok(configmap()))
    await client.get(CONFIGMAPS, "ns", "a")
    stub.on("DELETE", ONE, LOST, refusal(404, "NotFound"))
    await client.delete(CONFIGMAPS, "ns", "a", uid="u1")  # gone, and by us: no NotFound
    assert len(stub.calls("DELETE")) == 2


@pytest.mark.parametrize(
    "answer",
    [refusal(500, "InternalError", "failed calling webhook"), refusal(503, "ServiceUnavailable", "shutting down")],
)
async def test_a_definite_refusal_is_not_ambiguous(stub: StubServer, client: Client, answer: Reply) -> None:
    stub.on("PATCH", ONE, *[answer] * 4)
    with pytest.raises(ServerError):
        await client.patch(CONFIGMAPS, "ns", "a", {"data": {"x": "1"}})


async def test_a_server_that_is_going_down_is_asked_again_because_it_did_nothing(
    stub: StubServer, client: Client
) -> None:
    stub.on("POST", ALL, refusal(503, "ServiceUnavailable"), ok(configmap(), 201))
    await client.create(CONFIGMAPS, "ns", {"metadata": {"generateName": "a-"}})
    assert len(stub.seen) == 2


async def test_a_refused_connection_leaves_no_doubt() -> None:
    clock = SkippingClock()
    async with Client(Credentials("http://127.0.0.1:1"), clock=clock) as client:
        with pytest.raises(Unreachable):
            await client.evict("ns", "p", uid="u1")
    assert len(clock.slept) == 3  # and is tried again: nothing was sent


async def test_a_write_whose_reply_is_a_page_is_ambiguous(stub: StubServer, client: Client) -> None:
    stub.on("PATCH", ONE, Reply(200, b"<html>Welcome</html>"))
    with pytest.raises(Ambiguous, match="Welcome"):
        await client.patch(CONFIGMAPS, "ns", "a", {"data": {"x": "1"}})


# ── create: the name is the guard ────────────────────────────────────────────────────────────────────────────────────


@doubtful
async def test_a_create_that_was_applied_is_recognised(stub: StubServer, client: Client, answer: Answer) -> None:
    live = {**configmap(data={"x": "1"}), "immutable": True}
    stub.on("POST", ALL, answer, refusal(409, "AlreadyExists"))
    stub.on("GET", ONE, ok(live))
    made = await client.create(CONFIGMAPS, "ns", BODY)
    assert made.uid == "u1"
    assert stub.calls() == [f"POST {ALL}", f"POST {ALL}", f"GET {ONE}"]


async def test_a_create_that_was_not_applied_is_made(stub: StubServer, client: Client) -> None:
    stub.on("POST", ALL, LOST, ok(configmap(), 201))
    assert (await client.create(CONFIGMAPS, "ns", BODY)).uid == "u1"


async def test_a_name_that_someone_else_took_is_no_success(stub: StubServer, client: Client) -> None:
    stub.on("POST", ALL, LOST, refusal(409, "AlreadyExists"))
    stub.on("GET", ONE, ok(configmap(data={"x": "another's"})))
    with pytest.raises(AlreadyExists):
        await client.create(CONFIGMAPS, "ns", BODY)


async def test_already_there_before_the_first_attempt_is_an_error_even_if_equal(
    stub: StubServer, client: Client
) -> None:
    stub.on("POST", ALL, refusal(409, "AlreadyExists"))
    with pytest.raises(AlreadyExists):
        await client.create(CONFIGMAPS, "ns", BODY)
    assert len(stub.seen) == 1


async def test_doubt_that_cannot_be_cleared_stays_doubt(stub: StubServer, client: Client) -> None:
    stub.on("POST", ALL, LOST, refusal(409, "AlreadyExists"))
    stub.on("GET", ONE, refusal(403, "Forbidden"))
    with pytest.raises(Ambiguous, match="cannot read"):
        await client.create(CONFIGMAPS, "ns", BODY)


@pytest.mark.parametrize("later", [[LOST] * 3, [refusal(503)] * 3, [refusal(429)] * 3, [refusal(403, "Forbidden")]])
async def test_whatever_comes_later_a_doubt_is_not_forgotten(
    stub: StubServer, client: Client, later: list[Answer]
) -> None:
    stub.on("POST", ALL, LOST, *later)
    with pytest.raises(Ambiguous):
        await client.create(CONFIGMAPS, "ns", BODY)


async def test_an_answer_that_holds_for_the_first_attempt_too_ends_the_doubt(stub: StubServer, client: Client) -> None:
    stub.on("POST", ALL, LOST, refusal(422, "Invalid"), LOST, refusal(404, "NotFound"))
    with pytest.raises(Invalid):
        await client.create(CONFIGMAPS, "ns", BODY)
    with pytest.raises(NotFound):  # the namespace is gone, and all that was in it
        await client.create(CONFIGMAPS, "ns", BODY)


async def test_a_first_attempt_that_never_left_is_no_doubt(stub: StubServer, client: Client) -> None:
    stub.on("POST", ALL, refusal(429, "TooManyRequests"), refusal(403, "Forbidden"))
    with pytest.raises(Forbidden):
        await client.create(CONFIGMAPS, "ns", BODY)


# ── patch: the resourceVersion is the guard ──────────────────────────────────────────────────────────────────────────


@doubtful
async def test_a_patch_that_was_applied_is_recognised(stub: StubServer, client: Client, answer: Answer) -> None:
    stub.on("PATCH", ONE, answer, refusal(409, "Conflict"))
    stub.on("GET", ONE, ok(configmap(version="8", data={"x": "1", "other": "y"})))
    body = {"data": {"x": "1", "gone": None}}
    changed = await client.patch(CONFIGMAPS, "ns", "a", body, uid="u1", resource_version="7")
    assert changed.metadata.resource_version == "8"
    assert [seen.json for seen in stub.seen[:2]] == [{**body, "metadata": {"uid": "u1", "resourceVersion": "7"}}] * 2


@pytest.mark.parametrize(
    "live",
    [
        configmap(version="8", data={"x": "changed since"}),
        configmap(version="8", data={"x": "1", "gone": "still here"}),
        configmap(version="8"),
        configmap(uid="u2", version="8", data={"x": "1"}),
    ],
    ids=["another value", "not removed", "missing", "another object"],
)
async def test_a_conflict_that_is_not_our_own_doing_is_a_conflict(
    stub: StubServer, client: Client, live: dict[str, Any]
) -> None:
    stub.on("PATCH", ONE, LOST, refusal(409, "Conflict"))
    stub.on("GET", ONE, ok(live))
    with pytest.raises(Conflict):
        await client.patch(CONFIGMAPS, "ns", "a", {"data": {"x": "1", "gone": None}}, uid="u1", resource_version="7")


async def test_a_conflict_on_the_first_attempt_is_a_conflict_even_if_equal(stub: StubServer, client: Client) -> None:
    stub.on("PATCH", ONE, refusal(409, "Conflict"))
    with pytest.raises(Conflict):
        await client.patch(CONFIGMAPS, "ns", "a", {"data": {"x": "1"}}, resource_version="7")
    assert len(stub.seen) == 1


async def test_a_json_patch_that_was_applied_is_recognised(stub: StubServer, client: Client) -> None:
    stub.on("PATCH", ONE, LOST, refusal(422, "Invalid"))
    stub.on("GET", ONE, ok(configmap(version="8", data={"x": "1"})))
    operations = [{"op": "replace", "path": "/data/x", "value": "1"}]
    changed = await client.patch(CONFIGMAPS, "ns", "a", operations, form="json", uid="u1", resource_version="7")
    assert changed.metadata.resource_version == "8"
    assert stub.seen[0].json == [
        {"op": "test", "path": "/metadata/uid", "value": "u1"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        *operations,
    ]


async def test_a_status_is_compared_with_the_object_that_holds_it(stub: StubServer, client: Client) -> None:
    stub.on("PATCH", f"{ONE}/status", LOST, refusal(409, "Conflict"))
    stub.on("GET", ONE, ok({**configmap(version="8"), "status": {"phase": "Ready"}}))
    await client.patch(
        CONFIGMAPS, "ns", "a", {"status": {"phase": "Ready"}}, resource_version="7", subresource="status"
    )
    assert stub.calls("GET") == [f"GET {ONE}"]


async def test_of_a_kind_without_a_body_no_more_than_its_metadata_is_asked_for(
    stub: StubServer, client: Client
) -> None:
    brief = {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": configmap(version="8")["metadata"],
    }
    stub.on("PATCH", ONE, ok(brief), ok(configmap()))
    guards: Any = {"uid": "u1", "resource_version": "7"}
    changed = await client.patch(metadata_of(CONFIGMAPS), "ns", "a", {"data": {"x": "1"}}, form="strategic", **guards)
    await client.patch(CONFIGMAPS, "ns", "a", {"data": {"x": "1"}}, **guards)
    assert (type(changed), changed.metadata.resource_version) == (KubeObject, "8")
    first, second = (seen.headers["Accept"] for seen in stub.seen)
    assert first.startswith("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,")
    assert second == "application/json"


async def test_where_a_brief_reply_is_lost_the_whole_object_is_compared(stub: StubServer, client: Client) -> None:
    stub.on("PATCH", ONE, LOST, refusal(409, "Conflict"))
    stub.on("GET", ONE, ok(configmap(version="8", data={"x": "1"})))
    changed = await client.patch(
        metadata_of(CONFIGMAPS), "ns", "a", {"data": {"x": "1"}}, form="strategic", uid="u1", resource_version="7"
    )
    assert changed.metadata.resource_version == "8"
    assert [seen.headers["Accept"] for seen in stub.seen if seen.method == "GET"] == ["application/json"]


async def test_an_apply_patch_names_its_object_and_manager(stub: StubServer, client: Client) -> None:
    stub.on("PATCH", ONE, ok(configmap()))
    await client.patch(
        CONFIGMAPS, "ns", "a", {"data": {"x": "1"}}, form="apply", uid="u1", resource_version="7", force=True
    )
    (seen,) = stub.seen
    assert seen.query == {"fieldManager": "plimsoll", "force": "true"}
    assert seen.headers["Content-Type"] == "application/apply-patch+yaml"
    assert seen.json == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "uid": "u1", "resourceVersion": "7"},
        "data": {"x": "1"},
    }


# ── delete: the UID is the guard ─────────────────────────────────────────────────────────────────────────────────────


@doubtful
async def test_a_delete_that_was_applied_is_done(stub: StubServer, client: Client, answer: Answer) -> None:
    stub.on("DELETE", ONE, answer, refusal(404, "NotFound"))
    await client.delete(CONFIGMAPS, "ns", "a", uid="u1", resource_version="7", grace_seconds=0)
    assert [json.loads(seen.body) for seen in stub.seen] == [
        {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "u1", "resourceVersion": "7"},
            "gracePeriodSeconds": 0,
        }
    ] * 2


async def test_not_found_on_the_first_attempt_is_told(stub: StubServer, client: Client) -> None:
    stub.on("DELETE", ONE, refusal(404, "NotFound"))
    with pytest.raises(NotFound):
        await client.delete(CONFIGMAPS, "ns", "a", uid="u1")


@pytest.mark.parametrize(
    "live",
    [
        ok(configmap(uid="u2")),
        ok({"metadata": {"name": "a", "uid": "u1", "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        refusal(404, "NotFound"),
    ],
    ids=["replaced", "leaving", "gone"],
)
async def test_a_delete_refused_because_it_is_already_done_is_done(
    stub: StubServer, client: Client, live: Reply
) -> None:
    stub.on("DELETE", ONE, LOST, refusal(409, "Conflict"))
    stub.on("GET", ONE, live)
    await client.delete(CONFIGMAPS, "ns", "a", uid="u1", resource_version="7")


async def test_a_delete_refused_because_the_object_changed_is_a_conflict(stub: StubServer, client: Client) -> None:
    stub.on("DELETE", ONE, LOST, refusal(409, "Conflict"))
    stub.on("GET", ONE, ok(configmap(version="8")))
    with pytest.raises(Conflict):
        await client.delete(CONFIGMAPS, "ns", "a", uid="u1", resource_version="7")


async def test_what_destroys_is_not_sent_again_when_its_moment_has_passed(stub: StubServer) -> None:
    """The leadership under which it was decided may by then be another's."""
    clock = SkippingClock()
    stub.on("DELETE", ONE, refusal(429, headers={"Retry-After": "6"}), ok(configmap()))
    stub.on("PATCH", ONE, refusal(429, headers={"Retry-After": "6"}), ok(configmap()))
    async with Client(Credentials(stub.url), clock=clock) as client:
        with pytest.raises(Exception, match="429"):
            await client.delete(CONFIGMAPS, "ns", "a", uid="u1")
        assert len(stub.calls("DELETE")) == 1
        assert clock.slept == []
        await client.patch(CONFIGMAPS, "ns", "a", {"data": {}})
