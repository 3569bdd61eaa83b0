"""The built-in kinds of the API server: names, subresources, verbs and selectable fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plimsoll.embedded_cluster.api.json_documents import Path

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
# A column of `kubectl get`: name, type, JSONPath.
Column = tuple[str, str, str]


_SCALE_PATHS: tuple[Path, Path, Path] = (("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))


# Subresources of pods that open a connection into a container; there are no containers here.
STREAMING = ("attach", "exec", "portforward")


@dataclass(frozen=True)
class ResourceKind:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""
    status: bool = False  # has the status subresource
    scale: bool = False
    # Paths of a custom kind's scale subresource: wanted replicas, current replicas, selector.
    scale_paths: tuple[Path, Path, Path] = field(default=_SCALE_PATHS, compare=False)
    generation: bool = False  # `metadata.generation` counts the changes of its spec
    selectable: Mapping[str, Path] = field(default_factory=dict, compare=False)  # fields that field selectors support
    custom: bool = False
    schema: Mapping[str, Any] | None = field(default=None, compare=False)  # of a custom kind
    columns: tuple[Column, ...] = field(default=(), compare=False)  # of a custom kind
    verbs: tuple[str, ...] = VERBS
    stored_as: tuple[str, str] = ("", "")  # group and plural of the stored objects if they differ

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def storage_key(self) -> tuple[str, str]:
        return self.stored_as if self.stored_as[1] else (self.group, self.plural)

    @property
    def subresources(self) -> tuple[str, ...]:
        more = ("binding", "eviction", "log", *STREAMING) if self.storage_key == ("", "pods") else ()
        return (*(("status",) if self.status else ()), *(("scale",) if self.scale else ()), *more)


def _paths(*fields: str) -> dict[str, Path]:
    return {name: tuple(name.split(".")) for name in fields}


_POD_FIELDS = _paths(
    "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
    "status.phase", "status.podIP", "status.nominatedNodeName",
)  # fmt: skip
_EVENT_FIELDS = _paths(
    "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
    "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
    "reportingComponent", "source", "type",
)  # fmt: skip
_APPS: Mapping[str, Any] = {
    "group": "apps",
    "version": "v1",
    "status": True,
    "generation": True,
    "categories": ("all",),
}
_RBAC: Mapping[str, Any] = {"group": "rbac.authorization.k8s.io", "version": "v1"}
_HOOKS: Mapping[str, Any] = {
    "group": "admissionregistration.k8s.io",
    "version": "v1",
    "namespaced": False,
    "generation": True,
    "categories": ("api-extensions",),
}

PODS = ResourceKind(
    "", "v1", "pods", "Pod", short=("po",), categories=("all",), status=True, generation=True, selectable=_POD_FIELDS
)
NODES = ResourceKind(
    "", "v1", "nodes", "Node", namespaced=False, short=("no",), status=True, selectable=_paths("spec.unschedulable")
)
NAMESPACES = ResourceKind(
    "", "v1", "namespaces", "Namespace", namespaced=False, short=("ns",), status=True, selectable=_paths("status.phase")
)
CONFIGMAPS = ResourceKind("", "v1", "configmaps", "ConfigMap", short=("cm",))
SECRETS = ResourceKind("", "v1", "secrets", "Secret", selectable=_paths("type"))
SERVICES = ResourceKind("", "v1", "services", "Service", short=("svc",), categories=("all",), status=True)
SERVICE_ACCOUNTS = ResourceKind("", "v1", "serviceaccounts", "ServiceAccount", short=("sa",))
CLAIMS = ResourceKind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short=("pvc",), status=True)
VOLUMES = ResourceKind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False, short=("pv",), status=True)
CORE_EVENTS = ResourceKind("", "v1", "events", "Event", short=("ev",), selectable=_EVENT_FIELDS)
EVENTS = ResourceKind(
    "events.k8s.io", "v1", "events", "Event", short=("ev",), stored_as=("", "events"),
    selectable={**{name.replace("involvedObject", "regarding"): path for name, path in _EVENT_FIELDS.items()}},
)  # fmt: skip
DEPLOYMENTS = ResourceKind(plural="deployments", kind="Deployment", short=("deploy",), scale=True, **_APPS)
REPLICASETS = ResourceKind(plural="replicasets", kind="ReplicaSet", short=("rs",), scale=True, **_APPS)
STATEFULSETS = ResourceKind(plural="statefulsets", kind="StatefulSet", short=("sts",), scale=True, **_APPS)
DAEMONSETS = ResourceKind(plural="daemonsets", kind="DaemonSet", short=("ds",), **_APPS)
REVISIONS = ResourceKind("apps", "v1", "controllerrevisions", "ControllerRevision")
BUDGETS = ResourceKind(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short=("pdb",), status=True, generation=True
)
LEASES = ResourceKind("coordination.k8s.io", "v1", "leases", "Lease")
PRIORITY_CLASSES = ResourceKind(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False, short=("pc",), generation=True
)
STORAGE_CLASSES = ResourceKind(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False, short=("sc",)
)
MUTATING_WEBHOOKS = ResourceKind(plural="mutatingwebhookconfigurations", kind="MutatingWebhookConfiguration", **_HOOKS)
VALIDATING_WEBHOOKS = ResourceKind(
    plural="validatingwebhookconfigurations", kind="ValidatingWebhookConfiguration", **_HOOKS
)
DEFINITIONS = ResourceKind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False,
    short=("crd", "crds"), categories=("api-extensions",), status=True, generation=True,
)  # fmt: skip

# Kinds that are computed and not stored.
NODE_METRICS = ResourceKind(
    "metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False, verbs=("get", "list")
)
POD_METRICS = ResourceKind("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", verbs=("get", "list"))
_REVIEWS: Mapping[str, Any] = {"version": "v1", "verbs": ("create",)}
_ACCESS = "authorization.k8s.io"
REVIEWS = (
    ResourceKind(
        _ACCESS, plural="selfsubjectaccessreviews", kind="SelfSubjectAccessReview", namespaced=False, **_REVIEWS
    ),
    ResourceKind(
        _ACCESS, plural="selfsubjectrulesreviews", kind="SelfSubjectRulesReview", namespaced=False, **_REVIEWS
    ),
    ResourceKind(_ACCESS, plural="subjectaccessreviews", kind="SubjectAccessReview", namespaced=False, **_REVIEWS),
    ResourceKind(_ACCESS, plural="localsubjectaccessreviews", kind="LocalSubjectAccessReview", **_REVIEWS),
    ResourceKind(
        "authentication.k8s.io", plural="selfsubjectreviews", kind="SelfSubjectReview", namespaced=False, **_REVIEWS
    ),
)
COMPUTED: tuple[ResourceKind, ...] = (NODE_METRICS, POD_METRICS, *REVIEWS)

BUILT_IN: tuple[ResourceKind, ...] = (
    PODS, NODES, NAMESPACES, CONFIGMAPS, SECRETS, SERVICES, SERVICE_ACCOUNTS, CLAIMS, VOLUMES, CORE_EVENTS, EVENTS,
    DEPLOYMENTS, REPLICASETS, STATEFULSETS, DAEMONSETS, REVISIONS, BUDGETS, LEASES, PRIORITY_CLASSES, STORAGE_CLASSES,
    MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, DEFINITIONS,
    ResourceKind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short=("netpol",), generation=True),
    ResourceKind(plural="roles", kind="Role", **_RBAC),
    ResourceKind(plural="rolebindings", kind="RoleBinding", **_RBAC),
    ResourceKind(plural="clusterroles", kind="ClusterRole", namespaced=False, **_RBAC),
    ResourceKind(plural="clusterrolebindings", kind="ClusterRoleBinding", namespaced=False, **_RBAC),
)  # fmt: skip
