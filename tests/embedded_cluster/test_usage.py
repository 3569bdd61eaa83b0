"""What metrics.k8s.io tells: a share of the requests of what runs, or what annotations say."""

from __future__ import annotations

import asyncio

from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, name_of
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from tests.embedded_cluster.scene import A_WHILE, ask, cluster, patch, virtually

_PATH = "/apis/metrics.k8s.io/v1beta1"


def pod(name: str, **annotations: str) -> Json:
    requests = {"cpu": "400m", "memory": "1Gi"}
    steered = {f"controlplane.test/{key.replace('_', '-')}": value for key, value in annotations.items()}
    containers = [{"name": one, "image": "x", "resources": {"requests": requests}} for one in ("a", "b")]
    return {
        "metadata": {"name": name, "annotations": steered, "labels": {"app": name}},
        "spec": {"containers": containers},
    }


async def usage(made: EmbeddedCluster, path: str, **params: str) -> dict[str, Json]:
    answer = await ask(made, "GET", _PATH + path, b"", **params)
    assert answer.body is not None
    assert answer.status == 200
    return {name_of(one): one for one in answer.body["items"]}


@virtually
async def test_pods_use_a_share_of_their_requests_and_nodes_what_their_pods_use() -> None:
    async with cluster("1 zone=a cpu=8", "1 zone=b cpu=8 annotation:controlplane.test/ready=false") as made:
        await made.create(kinds.PODS, pod("usual"))
        await made.create(kinds.PODS, pod("steered", cpu_usage="2", memory_usage="3Mi"))
        await made.create(
            kinds.PODS, {**pod("waiting"), "spec": {**pod("waiting")["spec"], "nodeSelector": {"no": "no"}}}
        )
        await asyncio.sleep(A_WHILE)
        made.api.measurements.share = 0.25
        pods = await usage(made, "/pods")
        assert set(pods) == {"usual", "steered"}
        assert [one["usage"] for one in pods["usual"]["containers"]] == [
            {"cpu": "100000000n", "memory": "262144Ki"}
        ] * 2
        assert [one["usage"] for one in pods["steered"]["containers"]] == [
            {"cpu": "1000000000n", "memory": "1536Ki"}
        ] * 2
        (node,) = (await usage(made, "/nodes")).values()  # of one that is not ready nobody knows
        assert node["usage"] == {"cpu": "2200000000n", "memory": f"{2 * 262144 + 3072}Ki"}
        assert set(await usage(made, "/namespaces/default/pods", labelSelector="app=usual")) == {"usual"}
        assert await usage(made, "/namespaces/kube-system/pods") == {}
        assert (await ask(made, "GET", f"{_PATH}/namespaces/default/pods/waiting")).status == 404
        assert (await ask(made, "POST", f"{_PATH}/nodes")).status == 405

        await patch(
            made, kinds.PODS, "usual", {"metadata": {"annotations": {"controlplane.test/cpu-usage": "nonsense"}}}
        )
        pods = await usage(made, "/pods")
        assert pods["usual"]["containers"][0]["usage"]["cpu"] == "0n"
