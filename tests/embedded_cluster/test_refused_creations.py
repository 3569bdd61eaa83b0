"""A controller whose creations are refused asks for a few at first, then more and more seldom, and at once when things change."""

from __future__ import annotations

import asyncio
import itertools

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from tests.embedded_cluster.scene import cluster, deployment, patch, ready_pods, virtually


class Quota:
    """A webhook that lets so many pods in and refuses the others; when it was asked, by virtual seconds."""

    def __init__(self, made: EmbeddedCluster, allowed: int) -> None:
        self.made, self.allowed, self.asked = made, allowed, list[float]()

    async def __call__(self, _url: str, _authority: bytes, review: Json, _seconds: float) -> Json:
        self.asked.append(self.made.clock.monotonic())
        uid, allowed = at(review, "request", "uid"), self.allowed > 0
        self.allowed -= allowed
        return {
            "apiVersion": review["apiVersion"],
            "kind": review["kind"],
            "response": {"uid": uid, "allowed": allowed},
        }


async def _with_quota(made: EmbeddedCluster, allowed: int) -> Quota:
    quota = Quota(made, allowed)
    made.api.objects.admission._ask = quota
    rules = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]
    hook = {
        "name": "quota.example.org", "rules": rules, "clientConfig": {"url": "https://quota.invalid/"},
        "sideEffects": "None", "admissionReviewVersions": ["v1"],
    }  # fmt: skip
    await made.create(kinds.MUTATING_WEBHOOKS, {"metadata": {"name": "quota"}, "webhooks": [hook]})
    return quota


@virtually
async def test_one_is_asked_for_where_all_are_refused() -> None:
    async with cluster("1 cpu=64") as made:
        quota = await _with_quota(made, allowed=0)
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=100))
        await made.settled()
        assert len(quota.asked) <= 2  # the second because the first look has written a status


@virtually
async def test_each_wait_is_twice_the_last() -> None:
    async with cluster("1 cpu=64") as made:
        quota = await _with_quota(made, allowed=0)
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=1))
        await asyncio.sleep(4000)
        waits = [call_later - earlier for earlier, call_later in itertools.pairwise(quota.asked)]
        assert max(waits) == 1000
        doubled = [call_later / earlier for earlier, call_later in itertools.pairwise(waits[3:]) if call_later < 1000]
        assert doubled and all(1.99 < factor < 2.01 for factor in doubled), waits


@virtually
async def test_what_is_let_in_is_made_and_a_change_ends_the_wait() -> None:
    async with cluster("1 cpu=64") as made:
        quota = await _with_quota(made, allowed=5)
        await made.create(kinds.DEPLOYMENTS, deployment(replicas=8))
        await asyncio.sleep(3000)
        assert len(ready_pods(made)) == 5
        asked, quota.allowed = len(quota.asked), 100
        await patch(made, kinds.DEPLOYMENTS, "web", {"spec": {"replicas": 9}})
        await asyncio.sleep(10)
        assert len(ready_pods(made)) == 9
        assert len(quota.asked) == asked + 4, "none was asked for in vain"
