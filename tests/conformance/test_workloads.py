"""Workloads come to the same end on both clusters: sizes, rollouts, which replica goes, ordinals, daemons."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.build import APPS, deployment, pod_spec
from tests.conformance.sides import MERGE, Json, Side, same
from tests.eventually import eventually

COST = "controller.kubernetes.io/pod-deletion-cost"
_COUNTS = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "unavailableReplicas")


def _complete(replicas: int) -> Any:
    def holds(found: Json) -> bool:
        status = found.get("status") or {}
        counts = [
            status.get(field, 0) for field in ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")
        ]
        return counts == [replicas] * 4 and status.get("observedGeneration") == found["metadata"]["generation"]

    return holds


async def _pods(side: Side, selector: str = "app=web") -> list[Json]:
    _, listed = await side.ask("GET", side.path("pods"), params={"labelSelector": selector})
    return [one for one in listed["items"] if "deletionTimestamp" not in one["metadata"]]


async def test_deployments(both: tuple[Side, Side]) -> None:
    await same(deployments, both)


async def deployments(side: Side) -> None:
    nodes = await side.add_nodes("3 cpu=8")
    path = side.path("deployments", "web", group=APPS)
    await side.ask("POST", side.path("deployments", group=APPS), deployment(side, replicas=6))
    ready = await side.until(path, _complete(6), "six ready pods")
    side.note("status", {field: ready["status"].get(field) for field in _COUNTS})
    side.note(
        "conditions", sorted([one["type"], one["status"], one["reason"]] for one in ready["status"]["conditions"])
    )
    side.note("revision", ready["metadata"]["annotations"].get("deployment.kubernetes.io/revision"))
    pods = await _pods(side)
    counts = sorted(sum(1 for one in pods if one["spec"]["nodeName"] == node) for node in nodes)
    side.note("spread over the nodes", counts)
    owner = pods[0]["metadata"]["ownerReferences"][0]
    side.note("owner", [owner["kind"], owner["apiVersion"], owner["controller"], owner["blockOwnerDeletion"]])
    side.note("labels", sorted(pods[0]["metadata"]["labels"]))
    side.note("conditions of a pod", sorted([one["type"], one["status"]] for one in pods[0]["status"]["conditions"]))

    template = {"metadata": {"annotations": {"version": "two"}}}
    await side.ask("PATCH", path, {"spec": {"template": template}}, form=MERGE)
    rolled = await side.until(path, _complete(6), "the rollout is done")
    side.note("revision after a rollout", rolled["metadata"]["annotations"].get("deployment.kubernetes.io/revision"))

    async def only_new() -> bool:
        found = await _pods(side)
        return len(found) == 6 and all(one["metadata"].get("annotations", {}).get("version") == "two" for one in found)

    await eventually(only_new, "all pods are new")
    _, sets = await side.ask("GET", side.path("replicasets", group=APPS))
    side.note("sizes of the replica sets", sorted(one["spec"]["replicas"] for one in sets["items"]))
    side.note("what a replica set says", sorted(
        key for key in sets["items"][0]["metadata"]["annotations"] if key.startswith("deployment.")
    ))  # fmt: skip

    names = sorted(one["metadata"]["name"] for one in await _pods(side))
    for number, name in enumerate(names):
        cost = {"metadata": {"annotations": {COST: str(number)}}}
        await side.ask("PATCH", side.path("pods", name), cost, form=MERGE)
    await side.ask("PATCH", path, {"spec": {"replicas": 2}}, form=MERGE)
    await side.until(path, _complete(2), "two ready pods")
    left = sorted(int(one["metadata"]["annotations"][COST]) for one in await _pods(side))
    side.note("the costs of those that stay", left)


async def test_stateful_sets_and_daemons(both: tuple[Side, Side]) -> None:
    await same(stateful_sets_and_daemons, both)


async def stateful_sets_and_daemons(side: Side) -> None:
    nodes = await side.add_nodes("3 cpu=8")
    labels = {"app": "db"}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(side, terminationGracePeriodSeconds=0)}
    body = {
        "metadata": {"name": "db"},
        "spec": {"replicas": 3, "serviceName": "db", "selector": {"matchLabels": labels}, "template": template},
    }
    await side.ask("POST", side.path("statefulsets", group=APPS), body)
    path = side.path("statefulsets", "db", group=APPS)
    made = await side.until(path, _complete(3), "three ready pods")
    side.note("names", sorted(one["metadata"]["name"] for one in await _pods(side, "app=db")))
    side.note("labels", sorted((await _pods(side, "app=db"))[0]["metadata"]["labels"]))
    side.note("one revision", made["status"]["currentRevision"] == made["status"]["updateRevision"])
    await side.ask("PATCH", path, {"spec": {"replicas": 1}}, form=MERGE)
    await side.until(path, _complete(1), "one ready pod")
    side.note("the first stays", [one["metadata"]["name"] for one in await _pods(side, "app=db")])
    await side.ask("PATCH", path, {"spec": {"template": {"metadata": {"annotations": {"version": "two"}}}}}, form=MERGE)
    await side.until(
        path,
        lambda one: _complete(1)(one) and one["status"]["currentRevision"] != made["status"]["currentRevision"],
        "updated",
    )
    side.note("updated", (await _pods(side, "app=db"))[0]["metadata"]["annotations"]["version"])

    daemon = {"metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {
        "metadata": {"labels": {"app": "agent"}}, "spec": pod_spec(side, terminationGracePeriodSeconds=0)}}}  # fmt: skip
    await side.ask("POST", side.path("daemonsets", group=APPS), daemon)
    path = side.path("daemonsets", "agent", group=APPS)
    found = await side.until(
        path, lambda one: (one.get("status") or {}).get("numberAvailable") == 3, "a daemon on each node"
    )
    status = found["status"]
    fields = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberMisscheduled",
    )
    side.note("status", {field: status.get(field) for field in fields})
    side.note("where", sorted(nodes.index(one["spec"]["nodeName"]) for one in await _pods(side, "app=agent")))


@pytest.mark.soak  # a kubelet is missed after a minute, and the real cluster takes that minute
async def test_nodes(both: tuple[Side, Side]) -> None:
    await same(nodes, both)


async def nodes(side: Side) -> None:
    node, beside = await side.add_nodes("2 cpu=2")
    # A node that stays well: where none does, nobody is sent away. It takes no pods.
    await side.until(f"/api/v1/nodes/{beside}", lambda one: not one["spec"].get("taints"), "a node without taints")
    await side.ask("PATCH", f"/api/v1/nodes/{beside}", {"spec": {"unschedulable": True}}, form=MERGE)
    path = f"/api/v1/nodes/{node}"
    ready = await side.until(path, lambda one: not one["spec"].get("taints"), "a node without taints")
    side.note(
        "conditions",
        sorted(
            [one["type"], one["status"]] for one in ready["status"]["conditions"] if one["type"] != "NetworkUnavailable"
        ),
    )
    await side.ask("PATCH", path, {"spec": {"unschedulable": True}}, form=MERGE)
    cordoned = await side.until(path, lambda one: one["spec"].get("taints"), "a taint")
    side.note("cordoned", [[one["key"], one["effect"]] for one in cordoned["spec"]["taints"]])
    await side.ask("POST", side.path("deployments", group=APPS), deployment(side, replicas=1))

    def is_refused(found: Json) -> bool:
        conditions = [
            one
            for pod in found["items"]
            for one in pod["status"].get("conditions", ())
            if one["type"] == "PodScheduled"
        ]
        return any(one["status"] == "False" for one in conditions)

    found = await side.until(side.path("pods"), is_refused, "a pod that finds no node")
    (pod,) = found["items"]
    side.note(
        "reason",
        [[one["reason"], one["status"]] for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"],
    )
    side.note("phase", pod["status"]["phase"])
    await side.ask("PATCH", path, {"spec": {"unschedulable": None}}, form=MERGE)
    web = side.path("deployments", "web", group=APPS)
    await side.until(web, _complete(1), "one ready pod")
    await side.ask("PATCH", path, {"metadata": {"annotations": {"controlplane.test/ready": "false"}}}, form=MERGE)
    tainted = await side.until(
        path, lambda one: len(one["spec"].get("taints") or ()) == 2, "taints of a node that is not ready"
    )
    side.note("not ready", sorted([one["key"], one["effect"]] for one in tainted["spec"]["taints"]))
    await side.ask("DELETE", path)

    async def waits() -> bool:
        pods = await _pods(side)
        return len(pods) == 1 and not pods[0]["spec"].get("nodeName")

    await eventually(waits, "the pod of a node that is gone is replaced")
    side.note("a gone node's pod is replaced", True)
