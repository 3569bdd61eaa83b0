"""From Spotalis and back: pods that its webhook has pinned by a nodeSelector, opt-in by label, percentages without a sign."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from plimsoll.controllers.placement.annotations import CLASS
from plimsoll.webhook.certificates import make_certificate, serving_context
from tests.eventually import eventually
from tests.migrating.cluster import Place, metric, settled, switched_on
from tests.placement.webhook_cluster import empty
from tools.controlplane.cluster import ControlPlane

CAPACITY = "karpenter.sh/capacity-type"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
SETTINGS = (
    "placement.percentSign=optional", "webhook.mode=url", "webhook.port=0", "webhook.timeout=30s",
    "controllers.reconcileInterval=1s", "controllers.workloadTiming.cooldownPeriod=0s",
    "controllers.workloadTiming.disruptionRetryInterval=1s",
)  # fmt: skip


@pytest.fixture
def namespace(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    yield namespace
    control_plane.request("DELETE", WEBHOOKS)
    empty(control_plane, namespace)


@asynccontextmanager
async def spotalis(here: Place, *classes: str) -> AsyncIterator[None]:
    """Its webhook, as far as pods see of it: each new one is pinned to the next class."""
    rest = iter(classes)

    async def answer(request: web.Request) -> web.Response:
        review = await request.json()
        patch = [{"op": "add", "path": "/spec/nodeSelector", "value": {CAPACITY: next(rest)}}]
        response = {
            "uid": review["request"]["uid"], "allowed": True, "patchType": "JSONPatch",
            "patch": base64.b64encode(json.dumps(patch).encode()).decode(),
        }  # fmt: skip
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    authority, certificate, key = make_certificate(["127.0.0.1"], datetime.now(UTC))
    app = web.Application()
    app.router.add_post("/mutate", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=serving_context(certificate, key))
    await site.start()
    hook = {
        "name": "mutate.spotalis.io", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
        "clientConfig": {
            "url": f"https://127.0.0.1:{runner.addresses[0][1]}/mutate", "caBundle": base64.b64encode(authority).decode(),
        },
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": here.namespace}},
        "timeoutSeconds": 30,
    }  # fmt: skip
    await here.direct.create(WEBHOOKS, {"metadata": {"name": "spotalis"}, "webhooks": [hook]})
    try:
        yield
    finally:
        await here.direct.delete(f"{WEBHOOKS}/spotalis")
        await runner.cleanup()


async def test_there_and_back(here: Place, kwok_nodes: Callable[[str], list[str]], tmp_path: Path):
    nodes = dict.fromkeys(kwok_nodes("1 class=spot"), "spot") | dict.fromkeys(
        kwok_nodes("1 class=on-demand"), "on-demand"
    )

    async def split() -> Counter[str]:
        return Counter(nodes[pod["spec"]["nodeName"]] for pod in await here.pods() if "nodeName" in pod["spec"])

    asked = {"spotalis.io/spot-percentage": "60", "spotalis.io/min-on-demand": "1"}
    async with spotalis(here, "spot", "spot", "spot", "on-demand", "on-demand"):
        await here.deploy("web", 5, asked, labels={"spotalis.io/enabled": "true"})
    before = await here.uids()
    only_here = f"placement.namespaceSelector=kubernetes.io/metadata.name={here.namespace}"
    async with switched_on(here, tmp_path, "placement", only_here, *SETTINGS) as operator:
        await settled(operator, "placement")
        assert await here.uids() == before, "what was right stays as it is"
        assert await split() == {"spot": 3, "on-demand": 2}
        await here.annotate("web", **{"spotalis.io/spot-percentage": "40%"})

        async def moved() -> bool:
            return await here.all_ready(5) and await split() == {"spot": 2, "on-demand": 3}

        await eventually(moved, "one moves")
        await settled(operator, "placement")
        assert await metric(operator, "plimsoll_actions_total", 'action="Evict"', 'result="done"') == 1
        assert len(await here.uids() - before) == 1, "and no other"
    after = await here.uids()
    assert "placement-class" in await here.command("cleanup", "--apply")
    assert not [pod for pod in await here.pods() if CLASS in pod["metadata"].get("annotations", {})]
    async with spotalis(here, "spot"):
        await here.scale("web", 6)
        await eventually(lambda: here.all_ready(6), "a new pod is Spotalis' own again")
    assert await split() == {"spot": 3, "on-demand": 3}
    assert after < await here.uids(), "going back moves nobody"
