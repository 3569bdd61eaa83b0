"""Which kinds the server has, what they are called, and what can be done with each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plimsoll.embedded_cluster.api.json_documents import Path

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
# How `kubectl get` shows a column: its name, its type, and where its value is.
Column = tuple[str, str, str]


_SCALE_PATHS: tuple[Path, Path, Path] = (("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))


@dataclass(frozen=True)
class Kind:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""
    status: bool = False  # has its status at an endpoint of its own
    scale: bool = False
    # Where the scale of a custom kind finds the count that is wanted, the one that is there, and the selector.
    scale_paths: tuple[Path, Path, Path] = field(default=_SCALE_PATHS, compare=False)
    generation: bool = False  # `metadata.generation` counts the changes of its spec
    selectable: Mapping[str, Path] = field(default_factory=dict, compare=False)  # fields that a selector may name
    custom: bool = False
    schema: Mapping[str, Any] | None = field(default=None, compare=False)  # of a custom kind
    columns: tuple[Column, ...] = field(default=(), compare=False)  # of a custom kind
    verbs: tuple[str, ...] = VERBS
    stored_as: tuple[str, str] = ("", "")  # group and plural under which the objects are kept, if not its own

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
        more = ("binding", "eviction", "log") if self.storage_key == ("", "pods") else ()
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

PODS = Kind(
    "", "v1", "pods", "Pod", short=("po",), categories=("all",), status=True, generation=True, selectable=_POD_FIELDS
)
NODES = Kind(
    "", "v1", "nodes", "Node", namespaced=False, short=("no",), status=True, selectable=_paths("spec.unschedulable")
)
NAMESPACES = Kind(
    "", "v1", "namespaces", "Namespace", namespaced=False, short=("ns",), status=True, selectable=_paths("status.phase")
)
CONFIGMAPS = Kind("", "v1", "configmaps", "ConfigMap", short=("cm",))
SECRETS = Kind("", "v1", "secrets", "Secret", selectable=_paths("type"))
SERVICES = Kind("", "v1", "services", "Service", short=("svc",), categories=("all",), status=True)
SERVICE_ACCOUNTS = Kind("", "v1", "serviceaccounts", "ServiceAccount", short=("sa",))
CLAIMS = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short=("pvc",), status=True)
VOLUMES = Kind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False, short=("pv",), status=True)
CORE_EVENTS = Kind("", "v1", "events", "Event", short=("ev",), selectable=_EVENT_FIELDS)
EVENTS = Kind(
    "events.k8s.io", "v1", "events", "Event", short=("ev",), stored_as=("", "events"),
    selectable={**{name.replace("involvedObject", "regarding"): path for name, path in _EVENT_FIELDS.items()}},
)  # fmt: skip
DEPLOYMENTS = Kind(plural="deployments", kind="Deployment", short=("deploy",), scale=True, **_APPS)
REPLICASETS = Kind(plural="replicasets", kind="ReplicaSet", short=("rs",), scale=True, **_APPS)
STATEFULSETS = Kind(plural="statefulsets", kind="StatefulSet", short=("sts",), scale=True, **_APPS)
DAEMONSETS = Kind(plural="daemonsets", kind="DaemonSet", short=("ds",), **_APPS)
REVISIONS = Kind("apps", "v1", "controllerrevisions", "ControllerRevision")
BUDGETS = Kind(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short=("pdb",), status=True, generation=True
)
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease")
PRIORITY_CLASSES = Kind(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False, short=("pc",), generation=True
)
STORAGE_CLASSES = Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False, short=("sc",))
MUTATING_WEBHOOKS = Kind(plural="mutatingwebhookconfigurations", kind="MutatingWebhookConfiguration", **_HOOKS)
VALIDATING_WEBHOOKS = Kind(plural="validatingwebhookconfigurations", kind="ValidatingWebhookConfiguration", **_HOOKS)
DEFINITIONS = Kind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False,
    short=("crd", "crds"), categories=("api-extensions",), status=True, generation=True,
)  # fmt: skip

# What is answered from other objects, and stored nowhere.
NODE_METRICS = Kind("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False, verbs=("get", "list"))
POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", verbs=("get", "list"))
_REVIEWS: Mapping[str, Any] = {"version": "v1", "verbs": ("create",)}
_ACCESS = "authorization.k8s.io"
REVIEWS = (
    Kind(_ACCESS, plural="selfsubjectaccessreviews", kind="SelfSubjectAccessReview", namespaced=False, **_REVIEWS),
    Kind(_ACCESS, plural="selfsubjectrulesreviews", kind="SelfSubjectRulesReview", namespaced=False, **_REVIEWS),
    Kind(_ACCESS, plural="subjectaccessreviews", kind="SubjectAccessReview", namespaced=False, **_REVIEWS),
    Kind(_ACCESS, plural="localsubjectaccessreviews", kind="LocalSubjectAccessReview", **_REVIEWS),
    Kind("authentication.k8s.io", plural="selfsubjectreviews", kind="SelfSubjectReview", namespaced=False, **_REVIEWS),
)
ANSWERED: tuple[Kind, ...] = (NODE_METRICS, POD_METRICS, *REVIEWS)

BUILT_IN: tuple[Kind, ...] = (
    PODS, NODES, NAMESPACES, CONFIGMAPS, SECRETS, SERVICES, SERVICE_ACCOUNTS, CLAIMS, VOLUMES, CORE_EVENTS, EVENTS,
    DEPLOYMENTS, REPLICASETS, STATEFULSETS, DAEMONSETS, REVISIONS, BUDGETS, LEASES, PRIORITY_CLASSES, STORAGE_CLASSES,
    MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, DEFINITIONS,
    Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short=("netpol",), generation=True),
    Kind(plural="roles", kind="Role", **_RBAC),
    Kind(plural="rolebindings", kind="RoleBinding", **_RBAC),
    Kind(plural="clusterroles", kind="ClusterRole", namespaced=False, **_RBAC),
    Kind(plural="clusterrolebindings", kind="ClusterRoleBinding", namespaced=False, **_RBAC),
)  # fmt: skip
