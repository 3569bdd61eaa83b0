"""kube-scheduler itself, asked about one pod and one node at a time.

The profile `where-told` runs every filter that kube-scheduler has and one score alone, the preferred node affinity. A pod
that prefers one node therefore lands there exactly if that node passes every filter: nothing outvotes the wish.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from plimsoll.kube.codec import builtins, convert
from plimsoll.kube.types.core import Node, Pod
from tests.scheduling import menus
from tests.scheduling.cases import CLAIMS, VOLUMES
from tools.controlplane.cluster import ControlPlane

WHERE_TOLD = "where-told"
# Far beyond what a decision takes on a machine that others use too.
PATIENCE_SECONDS = 60.0


def scheduler_arguments(directory: Path) -> list[str]:
    """Flags of a scheduler with the profile; `directory` is where its cluster will live."""
    profiles = [
        {"schedulerName": "default-scheduler"},
        {
            "schedulerName": WHERE_TOLD,
            "plugins": {
                "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeAffinity", "weight": 1}]},
                "postFilter": {"disabled": [{"name": "*"}]},  # nobody is preempted to make room
            },
        },
    ]
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": str(directory / "access" / "kube-scheduler.kubeconfig"),
            "qps": 5000,
            "burst": 10000,
        },
        # By default a search among many nodes ends when enough are found, and may miss the one that is preferred.
        "percentageOfNodesToScore": 100,
        "profiles": profiles,
    }
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "scheduler.json"
    file.write_text(json.dumps(configuration))
    return [f"--config={file}"]


class Outcome(NamedTuple):
    """Where a pod was bound, or why it was not."""

    node_name: str
    message: str


class RealScheduler:
    """A cluster with the namespaces, claims and volumes of every case, and nodes and pods that come and go."""

    def __init__(self, cluster: ControlPlane) -> None:
        self.cluster = cluster
        self._threads = ThreadPoolExecutor(8)
        for name, labels in menus.NAMESPACES.items():
            self._create("namespaces", {"metadata": {"name": name, "labels": dict(labels)}})
        self._add_runtime_class()
        self._add_volumes()

    def _create(self, path: str, body: Mapping[str, Any]) -> Any:
        return self.cluster.request("POST", path if path.startswith("/") else f"/api/v1/{path}", body)

    def _add_runtime_class(self) -> None:
        overhead = {"podFixed": menus.OVERHEAD["spec"]["overhead"]}
        body = {"metadata": {"name": menus.RUNTIME_CLASS}, "handler": "none", "overhead": overhead}
        self._create("/apis/node.k8s.io/v1/runtimeclasses", body)

    def _add_volumes(self) -> None:
        storage = {"storage": "1Gi"}
        common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        for volume in VOLUMES:
            spec = {**common, "capacity": storage, "hostPath": {"path": "/nowhere"}, **builtins(volume.spec)}
            metadata = {"name": volume.name, "labels": dict(volume.labels)}
            self._create("persistentvolumes", {"metadata": metadata, "spec": spec})
        for claim in CLAIMS:
            spec = {**common, "resources": {"requests": storage}, "volumeName": claim.spec.volume_name}
            body = {"metadata": {"name": claim.name}, "spec": spec}
            self._create(f"namespaces/{claim.namespace}/persistentvolumeclaims", body)
        self.cluster.wait_for(self._claims_are_bound, "the claims to be bound to their volumes")

    def _claims_are_bound(self) -> bool:
        items = self.cluster.request("GET", "/api/v1/persistentvolumeclaims")["items"]
        return all(item["status"].get("phase") == "Bound" for item in items)

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def add_nodes(self, nodes: Iterable[Node]) -> None:
        """Nodes as described, kept alive by KWOK; returns once pods may be bound to them."""
        names = []
        for node in nodes:
            names.append(node.name)
            self._create("nodes", _node_manifest(node))
        self.cluster.wait_for(lambda: self._settled(names), "the nodes to be ready")

    def _settled(self, names: list[str]) -> bool:
        wanted = set(names)
        ready = 0
        for item in self.cluster.request("GET", "/api/v1/nodes")["items"]:
            taints = {taint["key"] for taint in item["spec"].get("taints", ())}
            cordon_is_known = not item["spec"].get("unschedulable") or menus.CORDON["key"] in taints
            ready += (
                item["metadata"]["name"] in wanted and "node.kubernetes.io/not-ready" not in taints and cordon_is_known
            )
        return ready == len(wanted)

    def wait_until_the_scheduler_knows_them(self) -> None:
        """Nodes and pods reach it by separate streams, so a pod may overtake a node. Changes of nodes come in order:
        once a pod lands on the node that was changed last, all of them are known."""
        items = self.cluster.request("GET", "/api/v1/nodes")["items"]
        last = max(items, key=lambda item: int(item["metadata"]["resourceVersion"]))["metadata"]["name"]
        # Everything but the taint of a node that is not ready, which is what the last change takes away.
        keys = {taint["key"] for taint in (*menus.TAINTS, menus.CORDON)}
        tolerations = [{"key": key, "operator": "Exists"} for key in sorted(keys)]
        probe = menus.merge(menus.SIZES[6], {"spec": {"tolerations": tolerations}})
        identity = {"metadata": {"generateName": "probe-", "namespace": "blue"}}
        self.cluster.wait_for(
            lambda: self.try_on(menus.merge(probe, identity), last, keep=False).node_name == last,
            f"kube-scheduler to know the node {last}",
        )

    def clear(self) -> None:
        """Take away all pods, then all nodes with their leases.

        Where a node is made anew while the lease of the former one of its name is there, KWOK passes over pods that are bound to it
        before that lease is collected and made anew, ten seconds later.
        """
        for pod in self.pods():
            if pod["metadata"].get("finalizers"):
                self._patch(pod["metadata"], {"metadata": {"finalizers": None}})
        for namespace in menus.NAMESPACES:
            self.cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
        self.cluster.wait_for(lambda: not self.pods(), "all pods to be gone")
        self.cluster.request("DELETE", "/api/v1/nodes")
        self.cluster.wait_for(self._without_leases, "the leases of nodes to be gone")

    def _without_leases(self) -> bool:
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        left = self.cluster.request("GET", leases)["items"]
        if left:
            self.cluster.request("DELETE", leases)
        return not left

    # ── pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def pods(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.cluster.request("GET", "/api/v1/pods")["items"]
        return items

    def bind(self, manifest: Mapping[str, Any], node_name: str) -> Pod:
        """A pod that is there already, whatever the scheduler would say of it."""
        return self._submit(menus.merge(manifest, {"spec": {"nodeName": node_name}}))

    def bind_terminating(self, manifest: Mapping[str, Any], node_name: str) -> Pod:
        """A pod that has been told to go and does not: a finalizer holds it."""
        held = menus.merge(manifest, {"metadata": {"finalizers": ["example.com/held"]}})
        return self._delete(self.bind(held, node_name))

    def bind_finished(self, manifest: Mapping[str, Any], node_name: str) -> Pod:
        pod = self.bind(manifest, node_name)
        where = {"namespace": pod.namespace, "name": pod.name}
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        # KWOK would make it run after all if it had not seen to that before.
        self.cluster.wait_for(
            lambda: bool(self.cluster.request("GET", path)["status"]["phase"] == "Running"), f"{pod.name} to run"
        )
        return convert(self._patch(where, {"status": {"phase": "Succeeded"}}, "/status"), Pod)

    def _patch(self, where: Mapping[str, str], body: Mapping[str, Any], subresource: str = "") -> Any:
        path = f"/api/v1/namespaces/{where['namespace']}/pods/{where['name']}{subresource}"
        return self.cluster.request("PATCH", path, body, content_type="application/merge-patch+json")

    def _delete(self, pod: Pod) -> Pod:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}?gracePeriodSeconds=0"
        return convert(self.cluster.request("DELETE", path), Pod)

    def try_on(self, manifest: Mapping[str, Any], node_name: str, *, keep: bool = True) -> Outcome:
        """Submit a pod that prefers one node, and wait for what is decided. One that is refused is taken away again:
        kube-scheduler would try it once more whenever something changes."""
        preference = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node_name]}]}
        wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": preference}]}
        extra = {"spec": {"schedulerName": WHERE_TOLD, "affinity": {"nodeAffinity": wish}}}
        pod = self._submit(menus.merge(manifest, extra))
        outcome = self.outcome(pod)
        if not (keep and outcome.node_name):
            self._delete(pod)
        return outcome

    def submit_all(self, manifests: Iterable[Mapping[str, Any]]) -> None:
        """Pods for the default scheduler, as fast as they can be created."""
        list(self._threads.map(self._submit, manifests))

    def as_stored(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """What the API server makes of a manifest, without making it."""
        stored: dict[str, Any] = self._post(manifest, "?dryRun=All")
        dropped = manifest["spec"].keys() - stored["spec"].keys()
        assert not dropped, f"the API server has not kept {dropped} of {manifest}"
        return stored

    def _submit(self, manifest: Mapping[str, Any]) -> Pod:
        return convert(self._post(manifest), Pod)

    def _post(self, manifest: Mapping[str, Any], how: str = "") -> Any:
        quick = {"spec": {"terminationGracePeriodSeconds": 0}}
        body = menus.merge({"apiVersion": "v1", "kind": "Pod"}, manifest, quick)
        return self._create(f"namespaces/{body['metadata']['namespace']}/pods{how}", body)

    def outcome(self, pod: Pod) -> Outcome:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            item = self.cluster.request("GET", path)
            if item["spec"].get("nodeName"):
                return Outcome(item["spec"]["nodeName"], "")
            for condition in item["status"].get("conditions", ()):
                if condition["type"] == "PodScheduled" and condition["status"] == "False":
                    return Outcome("", f"{condition['reason']}: {condition.get('message', '')}")
            time.sleep(0.002)
        raise AssertionError(f"kube-scheduler did not decide on {pod.namespace}/{pod.name}; logs: {self.cluster.logs}")


def _node_manifest(node: Node) -> dict[str, Any]:
    plain: dict[str, Any] = builtins(node)
    return {
        "metadata": {
            "name": node.name,
            "labels": dict(node.labels),
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": plain.get("spec", {}),
        "status": plain["status"],
    }
