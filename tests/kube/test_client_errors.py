"""What the server answers, as types."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.kube.client.client import Client
from plimsoll.kube.client.credentials import Credentials
from plimsoll.kube.client.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    MalformedResponse,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from plimsoll.kube.types.resources import CONFIGMAPS, NODES, PODS
from tests.kube.stub_server import Reply, SkippingClock, StubServer, configmap, ok, refusal

ONE = "/api/v1/namespaces/ns/configmaps/a"
ALL = "/api/v1/namespaces/ns/configmaps"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (refusal(400, "BadRequest"), ApiError),
        (refusal(401, "Unauthorized"), Unauthorized),
        (refusal(403, "Forbidden"), Forbidden),
        (refusal(404, "NotFound"), NotFound),
        (refusal(409, "AlreadyExists"), AlreadyExists),
        (refusal(409, "Conflict"), Conflict),
        (refusal(410, "Gone"), Gone),
        (refusal(410, "Expired"), Gone),
        (Reply(410, b"gone"), Gone),
        (refusal(422, "Invalid"), Invalid),
    ],
)
async def test_each_answer_has_its_type(
    stub: StubServer, client: Client, reply: Reply, expected: type[ApiError]
) -> None:
    stub.on("GET", ONE, reply)
    with pytest.raises(ApiError) as caught:
        await client.get(CONFIGMAPS, "ns", "a")
    assert type(caught.value) is expected
    assert caught.value.status == reply.status
    assert "get configmaps ns/a" in str(caught.value)
    assert len(stub.seen) == 1  # none of these is asked twice


async def test_an_invalid_object_names_each_field(stub: StubServer, client: Client) -> None:
    causes = [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"},
        {"reason": "FieldValueInvalid", "message": "Invalid value: -1", "field": "spec.replicas"},
    ]
    stub.on("POST", ALL, refusal(422, "Invalid", "is invalid", causes=causes))
    with pytest.raises(Invalid) as caught:
        await client.create(CONFIGMAPS, "ns", {"metadata": {"name": "a"}})
    assert caught.value.causes == ("spec.containers: Required value", "spec.replicas: Invalid value: -1")
    assert "spec.replicas: Invalid value: -1" in str(caught.value)


@pytest.mark.parametrize("retry_after", [None, 1, 10])  # 10 while the budget is being counted, else none
async def test_an_eviction_that_a_budget_forbids_is_told_at_once(
    stub: StubServer, client: Client, retry_after: int | None
) -> None:
    cause = {
        "reason": "DisruptionBudget",
        "message": "The disruption budget web needs 2 healthy pods and has 2 currently",
    }
    details: Any = {"retryAfterSeconds": retry_after} if retry_after else {}
    stub.on("POST", "/api/v1/namespaces/ns/pods/p/eviction", refusal(429, "TooManyRequests", causes=[cause], **details))
    with pytest.raises(TooManyRequests) as caught:
        await client.evict("ns", "p", uid="u1")
    assert caught.value.disruption_budget
    assert caught.value.retry_after == retry_after
    assert "needs 2 healthy pods" in str(caught.value)
    assert len(stub.seen) == 1


async def test_two_budgets_on_one_pod_are_a_server_error_and_a_definite_one(stub: StubServer, client: Client) -> None:
    message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    stub.on("POST", "/api/v1/namespaces/ns/pods/p/eviction", refusal(500, "", message))
    with pytest.raises(ServerError, match="more than one PodDisruptionBudget"):
        await client.evict("ns", "p", uid="u1")
    assert len(stub.seen) == 1


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b"", b"\xff\xfe", b"404 page not found"])
async def test_an_error_page_is_shown_and_not_taken_for_kubernetes(
    stub: StubServer, client: Client, body: bytes
) -> None:
    stub.on("GET", ONE, Reply(404, body, {"Content-Type": "text/html"}))
    with pytest.raises(NotFound, match="not a Kubernetes Status") as caught:
        await client.get(CONFIGMAPS, "ns", "a")
    assert body.decode("utf-8", "replace") in str(caught.value)


async def test_a_page_instead_of_an_object_is_garbled(stub: StubServer, client: Client) -> None:
    page = Reply(200, b"<html>Please log in</html>", {"Content-Type": "text/html"})
    stub.on("GET", ONE, page)
    stub.on("GET", ALL, page)
    with pytest.raises(MalformedResponse, match="Please log in"):
        await client.get(CONFIGMAPS, "ns", "a")
    with pytest.raises(MalformedResponse, match="Please log in"):
        await client.read(ALL)


async def test_an_object_of_another_shape_says_where(stub: StubServer, client: Client) -> None:
    stub.on("GET", ONE, ok({**configmap(), "data": [1]}))
    with pytest.raises(MalformedResponse, match=r"\$\.data"):
        await client.get(CONFIGMAPS, "ns", "a")


async def test_a_redirect_is_not_followed(stub: StubServer, client: Client) -> None:
    stub.on("GET", ONE, Reply(307, b"", {"Location": f"{stub.url}/elsewhere"}))
    stub.on("GET", "/elsewhere", ok(configmap()))
    with pytest.raises(ApiError, match=r"a redirect to http://.*/elsewhere"):
        await client.get(CONFIGMAPS, "ns", "a")
    assert len(stub.seen) == 1


async def test_no_server_at_all() -> None:
    async with Client(Credentials("http://127.0.0.1:1"), clock=SkippingClock()) as client:
        with pytest.raises(Unreachable, match=r"no connection to http://127\.0\.0\.1:1"):
            await client.create(CONFIGMAPS, "ns", {"metadata": {"generateName": "a-"}})


async def test_a_closed_client_says_so(stub: StubServer) -> None:
    client = Client(Credentials(stub.url), clock=SkippingClock())
    stub.on("GET", ONE, ok(configmap()))
    await client.get(CONFIGMAPS, "ns", "a")
    await client.close()
    with pytest.raises(Unreachable, match="closed"):
        await client.get(CONFIGMAPS, "ns", "a")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a%2Fb"])
async def test_a_name_that_would_lead_elsewhere_is_never_sent(stub: StubServer, client: Client, name: str) -> None:
    with pytest.raises(ValueError, match="expected the name of one object"):
        await client.delete(CONFIGMAPS, "ns", name, uid="u1")
    with pytest.raises(ValueError, match="expected the name of one object"):
        await client.get(CONFIGMAPS, "ns", name)
    assert stub.seen == []


async def test_a_namespace_is_asked_for_where_one_is_needed(stub: StubServer, client: Client) -> None:
    with pytest.raises(ValueError, match="the namespace is empty"):
        await client.get(PODS, "", "p")
    with pytest.raises(ValueError, match=r"invalid namespace '\.\./x'"):
        await client.list(PODS, "../x")
    stub.on("GET", "/api/v1/nodes/n", ok({"metadata": {"name": "n"}}))
    assert (await client.get(NODES, "", "n")).name == "n"


async def test_what_destroys_must_name_a_uid(stub: StubServer, client: Client) -> None:
    with pytest.raises(ValueError, match="the uid is empty"):
        await client.delete(CONFIGMAPS, "ns", "a", uid="")
    with pytest.raises(ValueError, match="the uid is empty"):
        await client.evict("ns", "p", uid="")
    assert stub.seen == []


async def test_a_status_patch_by_uid_alone_is_refused_because_the_server_would_not_look_at_it(client: Client) -> None:
    with pytest.raises(ValueError, match="pass resource_version"):
        await client.patch(CONFIGMAPS, "ns", "a", {"status": {}}, uid="u1", subresource="status")


async def test_every_error_is_a_kube_error(stub: StubServer, client: Client) -> None:
    stub.on("GET", ONE, Reply(200, b"["), refusal(404))
    for _ in range(2):
        with pytest.raises(KubeError):
            await client.get(CONFIGMAPS, "ns", "a")
