"""Webhooks: whom they are asked about, what their patches do, and what happens when they fail."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.admission import WebhookCallError
from plimsoll.embedded_cluster.api.json_documents import Json, at
from plimsoll.embedded_cluster.api.status import StatusError
from tests.embedded_cluster.scene import A_WHILE, cluster, deployment, pods, virtually


class Hook:
    """A webhook that is asked in-process."""

    def __init__(self, *operations: Json, allowed: bool = True, fails: bool = False) -> None:
        self.operations = operations
        self.allowed = allowed
        self.fails = fails
        self.asked: list[Json] = []

    async def __call__(self, url: str, authority: bytes, review: Json, seconds: float) -> Json:
        assert url in ("https://hook", "https://asker.home.svc:443/ask")
        assert authority == b"pem"
        assert seconds == 10
        request = review["request"]
        self.asked.append(request)
        if self.fails:
            raise WebhookCallError("no connection")
        response: Json = {"uid": request["uid"], "allowed": self.allowed}
        if not self.allowed:
            response["status"] = {"message": "not today", "code": 403}
        if self.operations:
            response |= {
                "patchType": "JSONPatch",
                "patch": base64.b64encode(json.dumps(self.operations).encode()).decode(),
            }
        return {"response": response}


def configuration(**fields: Any) -> Json:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    client = {"url": "https://hook", "caBundle": base64.b64encode(b"pem").decode()}
    hook = {"name": "hook.example.org", "clientConfig": client, "rules": [rule], **fields}
    return {"metadata": {"name": "hooks"}, "webhooks": [hook]}


_LABEL = {"op": "add", "path": "/metadata/labels/hooked", "value": "yes"}


@virtually
async def test_pods_of_a_controller_are_asked_about_without_a_name_and_patched() -> None:
    hook = Hook(_LABEL)
    async with cluster("1 zone=a", ask=hook) as made:
        await made.create(kinds.MUTATING_WEBHOOKS, configuration())
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=2))
        await asyncio.sleep(A_WHILE)
        assert [at(pod, "metadata", "labels", "hooked") for pod in pods(made)] == ["yes", "yes"]
        first = hook.asked[0]
        assert (first["operation"], first["name"], first["namespace"]) == ("CREATE", "", "default")
        assert "name" not in first["object"]["metadata"]
        assert first["object"]["metadata"]["generateName"].startswith("web-")
        assert len(hook.asked) == 2


@virtually
async def test_selectors_decide_who_is_asked() -> None:
    hook = Hook()
    name = "kubernetes.io/metadata.name"
    elsewhere = {"matchExpressions": [{"key": name, "operator": "NotIn", "values": ["default"]}]}
    async with cluster("1 zone=a", ask=hook) as made:
        await made.create(kinds.MUTATING_WEBHOOKS, configuration(namespaceSelector=elsewhere))
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=1))
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=1), "kube-system")
        await asyncio.sleep(A_WHILE)
        assert [request["namespace"] for request in hook.asked] == ["kube-system"]


@virtually
async def test_a_refusal_is_the_answer() -> None:
    async with cluster(ask=Hook(allowed=False)) as made:
        await made.create(kinds.MUTATING_WEBHOOKS, configuration())
        with pytest.raises(StatusError) as refusal:
            await made.create(
                kinds.PODS, {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "m", "image": "x"}]}}
            )
        assert refusal.value.code == 403
        assert refusal.value.message == 'admission webhook "hook.example.org" denied the request: not today'


@virtually
@pytest.mark.parametrize(("policy", "made_it"), [("Ignore", True), ("Fail", False)])
async def test_a_webhook_that_does_not_answer(policy: str, made_it: bool) -> None:
    async with cluster(ask=Hook(fails=True)) as made:
        await made.create(kinds.MUTATING_WEBHOOKS, configuration(failurePolicy=policy))
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=1))
        await asyncio.sleep(A_WHILE)
        assert bool(pods(made)) is made_it


@virtually
async def test_conditions_decide_who_is_asked() -> None:
    hook = Hook()
    condition = {"name": "big", "expression": "has(object.metadata.labels) && object.metadata.labels['app'] == 'big'"}
    async with cluster("1 zone=a", ask=hook) as made:
        await made.create(kinds.MUTATING_WEBHOOKS, configuration(matchConditions=[condition]))
        for name in ("big", "small"):
            await made.create(kinds.DEPLOYMENTS, deployment(name, replicas=1))
        await asyncio.sleep(A_WHILE)
        assert [request["object"]["metadata"]["labels"]["app"] for request in hook.asked] == ["big"]


@virtually
async def test_a_condition_that_is_not_understood_is_refused_when_it_is_written() -> None:
    async with cluster(ask=Hook()) as made:
        condition = {"name": "odd", "expression": "object.metadata.labels.map(l, l)"}
        with pytest.raises(
            StatusError, match=r"matchConditions\[0\].expression: Invalid value: .*'map' is not understood"
        ):
            await made.create(kinds.MUTATING_WEBHOOKS, configuration(matchConditions=[condition]))


@virtually
@pytest.mark.parametrize(("policy", "made_it"), [("Ignore", True), ("Fail", False)])
async def test_a_condition_that_fails_is_a_webhook_that_fails(policy: str, made_it: bool) -> None:
    hook = Hook()
    condition = {"name": "odd", "expression": "object.metadata.nothing == 1"}
    async with cluster("1 zone=a", ask=hook) as made:
        await made.create(kinds.MUTATING_WEBHOOKS, configuration(matchConditions=[condition], failurePolicy=policy))
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=1))
        await asyncio.sleep(A_WHILE)
        assert bool(pods(made)) is made_it
        assert hook.asked == []


@virtually
async def test_validating_webhooks_see_what_the_mutating_ones_left_and_change_nothing() -> None:
    hook = Hook(_LABEL)
    async with cluster("1 zone=a", ask=hook) as made:
        await made.create(kinds.MUTATING_WEBHOOKS, configuration())
        await made.create(kinds.VALIDATING_WEBHOOKS, configuration())
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=1))
        await asyncio.sleep(A_WHILE)
        first, second = hook.asked
        assert "hooked" not in first["object"]["metadata"]["labels"]
        assert second["object"]["metadata"]["labels"]["hooked"] == "yes"


@virtually
async def test_a_webhook_behind_a_service_is_asked_under_its_name() -> None:
    hook = Hook(_LABEL)
    service = {"namespace": "home", "name": "asker", "path": "/ask"}
    client = {"service": service, "caBundle": base64.b64encode(b"pem").decode()}
    async with cluster("1 zone=a", ask=hook) as made:
        await made.create(kinds.MUTATING_WEBHOOKS, configuration(clientConfig=client))
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=1))
        await asyncio.sleep(A_WHILE)
        assert [at(pod, "metadata", "labels", "hooked") for pod in pods(made)] == ["yes"]


@virtually
async def test_a_webhook_that_wants_to_is_asked_again_after_others_changed_something() -> None:
    asked: list[str] = []

    async def ask(url: str, authority: bytes, review: Json, seconds: float) -> Json:
        del authority, seconds
        asked.append(url)
        response: Json = {"uid": review["request"]["uid"], "allowed": True}
        if url == "https://second":
            response["patch"] = base64.b64encode(json.dumps([_LABEL]).encode()).decode()
        return {"response": response}

    def named(name: str, **more: Any) -> Json:
        body = configuration(clientConfig={"url": f"https://{name}"}, **more)
        (hook,) = body["webhooks"]
        return {"metadata": {"name": name}, "webhooks": [{**hook, "name": f"{name}.example.org"}]}

    async with cluster("1 zone=a", ask=ask) as made:
        await made.create(kinds.MUTATING_WEBHOOKS, named("first", reinvocationPolicy="IfNeeded"))
        await made.create(kinds.MUTATING_WEBHOOKS, named("second"))
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=1))
        await asyncio.sleep(A_WHILE)
        assert asked == ["https://first", "https://second", "https://first"]
