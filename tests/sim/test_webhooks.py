"""Mutating webhooks: whom they are asked about, what their patches do, and what happens when they fail."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from plimsoll.sim.api import kinds
from plimsoll.sim.api.admission import UnansweredError
from plimsoll.sim.api.documents import Json, at
from plimsoll.sim.api.status import Refused
from tests.sim.scene import A_WHILE, cluster, deployment, pods, virtually


class Hook:
    """A webhook that is asked in-process."""

    def __init__(self, *operations: Json, allowed: bool = True, fails: bool = False) -> None:
        self.operations = operations
        self.allowed = allowed
        self.fails = fails
        self.asked: list[Json] = []

    async def __call__(self, url: str, authority: bytes, review: Json, seconds: float) -> Json:
        assert url == "https://hook"
        assert authority == b"pem"
        assert seconds == 10
        request = review["request"]
        self.asked.append(request)
        if self.fails:
            raise UnansweredError("no connection")
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
        with pytest.raises(Refused) as refusal:
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
