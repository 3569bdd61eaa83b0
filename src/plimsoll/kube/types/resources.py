"""The kinds that this project uses: their API paths, their types, and the indexes of their stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

from plimsoll.kube.types import apps, coordination, core, events, meta, policy, storage

T_co = TypeVar("T_co", bound=meta.KubeObject, covariant=True)


class Key(NamedTuple):
    """What a reconcile is about: the kind, namespace and name of an object, never an event."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}" if self.namespace else f"{self.kind}/{self.name}"


@dataclass(frozen=True, eq=False)
class Index:
    """An index of a store: finds objects by a value that they carry. Compared by identity."""

    name: str
    values: Callable[[Any], Iterable[str]]


@dataclass(frozen=True)
class Resource(Generic[T_co]):
    """A kind: how the API server serves it and to which type it is decoded."""

    group: str
    version: str
    plural: str
    kind: str
    type: type[T_co]
    namespaced: bool = True
    indexes: tuple[Index, ...] = field(default=(), compare=False)
    watched_in: str = ""  # the only namespace to watch; empty: all
    may_be_absent: bool = False  # a cluster without this kind is a cluster without such objects, and no trouble

    def __hash__(self) -> int:
        # Every access to a view hashes a Resource. A string caches its hash; one over all fields is computed each time.
        return hash(self.plural)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, of one object, or of a part of it."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/" + "/".join(parts)

    def key(self, obj: meta.KubeObject) -> Key:
        return Key(self.kind, obj.metadata.namespace, obj.metadata.name)


def owner_key(namespace: str, uid: str) -> str:
    """Value of `BY_OWNER`. With the namespace, because an ownerReference can be forged to point into another one."""
    return f"{namespace}/{uid}"


def _owner_key(obj: meta.KubeObject) -> Iterable[str]:
    owner = obj.metadata.controller
    return (owner_key(obj.metadata.namespace, owner.uid),) if owner else ()


def _node_name(pod: core.Pod) -> Iterable[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def _unbound(pod: core.Pod) -> Iterable[str]:
    return () if pod.spec.node_name else ("",)


def _not_ready(node: core.Node) -> Iterable[str]:
    return () if node.ready else ("",)


def _provider_ids(node: core.Node) -> Iterable[str]:
    provider_id = node.spec.provider_id
    return dict.fromkeys((provider_id, provider_id.rpartition("/")[2])) if provider_id else ()


def _taints(node: core.Node) -> Iterable[str]:
    return dict.fromkeys(taint.key for taint in node.spec.taints)


def _claims(pod: core.Pod) -> Iterable[str]:
    return [v.persistent_volume_claim.claim_name for v in pod.spec.volumes if v.persistent_volume_claim]


def label_in(namespace: str, key: str = "", value: str = "") -> str:
    """A label within a namespace as one value; without a label, the namespace."""
    return f"{namespace}/{key}={value}"


def selector_label(budget: policy.PodDisruptionBudget) -> Iterable[str]:
    selector = budget.spec.selector
    if selector is None:
        return ()  # it covers nobody
    return (label_in(budget.metadata.namespace, *next(iter(selector.match_labels.items()), ())),)


def _labels_of_template(workload: apps.Deployment | apps.StatefulSet) -> Iterable[str]:
    namespace, labels = workload.metadata.namespace, workload.spec.template.metadata.labels
    return (label_in(namespace), *(label_in(namespace, key, value) for key, value in labels.items()))


BY_OWNER = Index("owner", _owner_key)  # by namespace and UID of the controller: names come back, UIDs do not
BY_NODE = Index("node", _node_name)
UNBOUND = Index("unbound", _unbound)  # under "": the few pods that no node has yet, found without walking the others
BY_CLAIM = Index("claim", _claims)
BY_PROVIDER_ID = Index("provider id", _provider_ids)  # by spec.providerID, and by the part after its last slash
NOT_READY = Index("not ready", _not_ready)  # under "": the few nodes that are not, found without walking the others
BY_TAINT = Index("taint", _taints)  # by the taint's key
BY_SELECTOR_LABEL = Index("label asked for", selector_label)  # by one label that every pod of a budget must have
BY_TEMPLATE_LABEL = Index("template label", _labels_of_template)  # by each label of a workload's pods; and by namespace


def by_label(key: str) -> Index:
    """An index by the value of one label. Keep the returned index: it is compared by identity."""
    return Index(f"label:{key}", lambda obj: (value,) if (value := obj.metadata.labels.get(key)) is not None else ())


@cache
def metadata_of(resource: Resource[Any]) -> Resource[meta.KubeObject]:
    """The same kind, decoded as metadata only."""
    return replace(resource, type=meta.KubeObject)


@cache
def config_maps_in(namespace: str) -> Resource[core.ConfigMap]:
    """The ConfigMaps of one namespace; watching those of the whole cluster would be expensive and need more permissions."""
    return Resource("", "v1", "configmaps", "ConfigMap", core.ConfigMap, watched_in=namespace)


PODS = Resource("", "v1", "pods", "Pod", core.Pod, indexes=(BY_OWNER, BY_NODE, UNBOUND))
NODES = Resource("", "v1", "nodes", "Node", core.Node, namespaced=False, indexes=(NOT_READY, BY_TAINT, BY_PROVIDER_ID))
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", core.Namespace, namespaced=False)
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap", core.ConfigMap)
SECRETS = Resource("", "v1", "secrets", "Secret", core.Secret)
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", storage.PersistentVolumeClaim)
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", storage.PersistentVolume, namespaced=False)
# Where these two are not served, no node has an attach limit and no claim is unbound.
STORAGE_CLASSES = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", storage.StorageClass, namespaced=False, may_be_absent=True
)
CSI_NODES = Resource(
    "storage.k8s.io", "v1", "csinodes", "CSINode", storage.CSINode, namespaced=False, may_be_absent=True
)
REPLICASETS = Resource("apps", "v1", "replicasets", "ReplicaSet", apps.ReplicaSet, indexes=(BY_OWNER,))
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", apps.Deployment, indexes=(BY_TEMPLATE_LABEL,))
STATEFULSETS = Resource("apps", "v1", "statefulsets", "StatefulSet", apps.StatefulSet, indexes=(BY_TEMPLATE_LABEL,))
DAEMONSETS = Resource("apps", "v1", "daemonsets", "DaemonSet", apps.DaemonSet)
BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", policy.PodDisruptionBudget,
    indexes=(BY_SELECTOR_LABEL,),
)  # fmt: skip
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", coordination.Lease)
EVENTS = Resource("events.k8s.io", "v1", "events", "Event", events.Event)
