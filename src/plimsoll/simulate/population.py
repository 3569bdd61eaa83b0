"""Fills an embedded cluster from a snapshot, node lines or manifests. Called by `run` and the demo."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from plimsoll.config.providers import KwokOffering
from plimsoll.embedded_cluster.api import kinds
from plimsoll.embedded_cluster.api.json_documents import Json, at, controller_of, name_of, namespace_of, uid_of
from plimsoll.embedded_cluster.api.kinds import BUILT_IN, ResourceKind
from plimsoll.embedded_cluster.api.status import StatusError
from plimsoll.embedded_cluster.cluster import EmbeddedCluster
from plimsoll.kube.codec import builtins
from plimsoll.providers.kwok.nodes import machine_metadata
from plimsoll.providers.protocol import MachineRequest
from plimsoll.simulate.changes import ChangeError
from plimsoll.simulate.custom_kinds import CONTAINERS, NODE_GROUPS, VPSIE_NODES, install_custom_kinds
from plimsoll.simulate.world import World
from plimsoll.snapshot.view import SnapshotView

_CUSTOM = (NODE_GROUPS, VPSIE_NODES, CONTAINERS)
# Dependencies first: controllers reconcile as soon as an object exists.
_ORDER = (kinds.NODES, kinds.VOLUMES, kinds.CLAIMS, kinds.BUDGETS, kinds.PODS, kinds.REPLICASETS, kinds.DEPLOYMENTS,
          kinds.STATEFULSETS, kinds.DAEMONSETS, kinds.CONFIGMAPS, *_CUSTOM)  # fmt: skip
_IMAGE = "from-a-snapshot"
_WITH_TEMPLATES = ("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet")
# Machine id of a snapshot's machine in the simulated cloud: the VPSieNode's instance id, else its UID.
_INSTANCE = ("spec", "vpsieInstanceID")


async def populate_cluster(world: World, snapshot_view: SnapshotView | None, node_lines: Sequence[str]) -> None:
    """Create everything that exists before the operator starts."""
    await install_custom_kinds(world.cluster, world.config.allocation.namespace)
    if snapshot_view is not None:
        await _load(world, snapshot_view)
    for line in node_lines:
        await world.cluster.add_nodes(line)


async def _load(world: World, snapshot_view: SnapshotView) -> None:
    cluster = world.cluster
    there = set(cluster.api.storage.collection(kinds.NAMESPACES).by_namespace.get("", {}))
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for store in snapshot_view.view.stores():
        by_kind[store.resource.kind] = [builtins(obj) for obj in store]
    for name in ("NodeGroup", "VPSieNode", "WekaContainer"):
        by_kind[name] = [_with_spec_and_status(item) for item in by_kind.get(name, ())]
    by_kind["NodeGroup"] = [_with_sizes(item) for item in by_kind["NodeGroup"]]
    for group in by_kind["NodeGroup"]:
        check_offerings(group, world.config.providers.kwok.offerings)
    by_kind["ReplicaSet"] = _with_templates_of_owners(by_kind.get("ReplicaSet", ()), by_kind.get("Deployment", ()))
    for name in _WITH_TEMPLATES:
        by_kind[name] = [_with_template(item) for item in by_kind.get(name, ())]
    by_kind["PersistentVolumeClaim"] = _claims(by_kind)
    by_kind["Node"] = _as_machines(by_kind.get("Node", ()), by_kind["VPSieNode"])
    named = {item["metadata"]["name"] for item in by_kind.get("Namespace", ())}
    homes = {item["metadata"].get("namespace", "") for items in by_kind.values() for item in items} - {""}
    for missing in sorted((homes | named) - there):
        await cluster.create(kinds.NAMESPACES, {"metadata": {"name": missing}})
    for kind in _ORDER:
        cluster.load(kind, by_kind.get(kind.kind, ()))
    await _continue_provisioning(world, by_kind["VPSieNode"], {name_of(node) for node in by_kind["Node"]})


def check_offerings(group: Json, offerings: Sequence[KwokOffering]) -> None:
    """Raise ChangeError if none of the group's offerings has a known size."""
    offered = [one.id for one in offerings]
    wanted = at(group, "spec", "offeringIDs", default=[]) or []
    unknown = [one for one in wanted if one not in offered]
    if wanted and len(unknown) == len(wanted):
        raise ChangeError(
            f"NodeGroup {namespace_of(group) or 'default'}/{name_of(group)}: the sizes of offeringIDs {', '.join(unknown)} are "
            f"unknown; describe them under providers.kwok.offerings, which lists {', '.join(offered) or 'none'}"
        )


def _with_spec_and_status(item: dict[str, Any]) -> dict[str, Any]:
    """The object with the fields that every cluster stores."""
    return {"spec": {}, "status": {}, **item}


def _with_sizes(group: dict[str, Any]) -> dict[str, Any]:
    """Restore required zeros, which a snapshot omits: without them the schema rejects status updates."""
    return {**group, "spec": {"minNodes": 0, "maxNodes": 0, **group["spec"]}}


def _claims(by_kind: Mapping[str, Sequence[Json]]) -> list[dict[str, Any]]:
    """The claims of the pods. A claim without its volume, or missing from the snapshot, is unbound: its volume is provisioned where
    its next pod runs.
    """
    volumes = {name_of(volume) for volume in by_kind.get("PersistentVolume", ())}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for claim in by_kind.get("PersistentVolumeClaim", ()):
        spec = dict(at(claim, "spec", default={}))
        if spec.get("volumeName") not in volumes:
            spec.pop("volumeName", None)
        found[namespace_of(claim), name_of(claim)] = {**claim, "spec": spec}
    for pod in by_kind.get("Pod", ()):
        for volume in at(pod, "spec", "volumes", default=[]):
            key = (namespace_of(pod), at(volume, "persistentVolumeClaim", "claimName", default=""))
            if key[1] and key not in found:
                found[key] = {"metadata": {"namespace": key[0], "name": key[1]}, "spec": {}}
    return list(found.values())


def _with_templates_of_owners(
    replica_sets: Iterable[dict[str, Any]], deployments: Iterable[Json]
) -> list[dict[str, Any]]:
    """Give a ReplicaSet without a template that of its Deployment; another one would start a rollout."""
    templates = {
        uid_of(one): _with_template(dict(one))["spec"]["template"] for one in deployments if at(one, "metadata", "uid")
    }
    found = []
    for one in replica_sets:
        owner = controller_of(one)
        template = templates.get(owner["uid"]) if owner is not None and not at(one, "spec", "template") else None
        found.append(one if template is None else {**one, "spec": {**(one.get("spec") or {}), "template": template}})
    return found


def _with_template(owner: dict[str, Any]) -> dict[str, Any]:
    """Complete a pod template: a snapshot omits images, which an API server requires, and a hand-written one may omit all of it."""
    spec = owner.get("spec") or {}
    template = spec.get("template") or {"metadata": {"labels": at(spec, "selector", "matchLabels", default={})}}
    pod = template.get("spec") or {}
    containers = pod.get("containers") or [{"name": "main"}]
    made = {"containers": [{"image": _IMAGE, **one} for one in containers]}
    if pod.get("initContainers"):
        made["initContainers"] = [{"image": _IMAGE, **one} for one in pod["initContainers"]]
    return {**owner, "spec": {**spec, "template": {**template, "spec": {**pod, **made}}}}


def _as_machines(nodes: Iterable[Json], members: Iterable[Json]) -> list[dict[str, Any]]:
    """The nodes, with the labels and annotations that make nodes of node groups machines of the simulated cloud."""
    by_node = {_node_name(member): member for member in members}
    found = []
    for node in nodes:
        member = by_node.get(name_of(node))
        if member is None:
            found.append(dict(node))
            continue
        labels, annotations = machine_metadata(_request(member))
        meta = node["metadata"]
        marked = {
            **meta,
            "labels": {**meta.get("labels", {}), **labels},
            "annotations": {**meta.get("annotations", {}), **annotations},
        }
        found.append({**node, "metadata": marked})
    return found


async def _continue_provisioning(world: World, members: Iterable[Json], nodes: set[str]) -> None:
    """Order machines that were ordered before the snapshot and had not joined; they join after the usual delay."""
    for member in members:
        phase = at(member, "status", "phase", default="Pending")
        if _node_name(member) not in nodes and phase in ("Provisioning", "Provisioned", "Joining"):
            await world.cloud.provider.create(_request(member))


def _request(member: Json) -> MachineRequest:
    spec = member["spec"]
    return MachineRequest(
        key=at(member, *_INSTANCE, default="") or uid_of(member), name=_node_name(member),
        group=f"{namespace_of(member)}.{spec.get('nodeGroupName', '')}", offering=spec.get("instanceType", ""),
        datacenter=spec.get("datacenterID", ""), resource_identifier=spec.get("resourceIdentifier", ""),
    )  # fmt: skip


def _node_name(member: Json) -> str:
    said = at(member, "status", "nodeName", default="") or at(member, "spec", "nodeName", default="")
    return str(said or name_of(member))


async def create_object(cluster: EmbeddedCluster, document: dict[str, Any]) -> None:
    kind = _kind_of(cluster, document)
    meta = document.get("metadata") or {}
    title = f"{document.get('kind')} {meta.get('name')}"
    if kind is None:
        raise ChangeError(f"{title}: the embedded cluster does not serve this kind in {document.get('apiVersion')}")
    namespace = meta.get("namespace", "default") if kind.namespaced else ""
    if namespace and cluster.api.storage.get(kinds.NAMESPACES, "", namespace) is None:
        await cluster.create(kinds.NAMESPACES, {"metadata": {"name": namespace}})
    try:
        await cluster.create(kind, document, namespace)
    except StatusError as refusal:
        raise ChangeError(f"{title}: {refusal.message}") from None


def _kind_of(cluster: EmbeddedCluster, document: Mapping[str, Any]) -> ResourceKind | None:
    named = (str(document.get("apiVersion", "")), str(document.get("kind", "")))
    built_in = next((kind for kind in BUILT_IN if (kind.api_version, kind.kind) == named), None)
    return built_in or cluster.api.objects.catalogue.of_kind(*named)
