"""What this package must know of the operator's internals. Adapt this file, and no other, where a rename breaks the derivation.

Structs are found by some of their fields and collections by some of their members, wherever they live and whatever they are
called. Those fields and members are themselves part of the contract, apart from those of `Blocker` and the like.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import plimsoll
from tests.public_contract.source_tree import Module, SourceTree, field_names

PACKAGE = Path(plimsoll.__file__).parent
ROOT = PACKAGE.parents[1]  # of the repository

# Packages whose strings are not the operator's: the embedded cluster, which speaks as Kubernetes does, and the objects of the demo.
NOT_THE_OPERATOR = ("plimsoll.embedded_cluster", "plimsoll.simulate.demo")

# Prefixes of annotation, label and taint keys: what we write and what we let people write on objects, then what we only read.
OUR_DOMAINS = ("plimsoll.dev", "autoscaler.vpsie.com", "pod-deletion-cost.lablabs.io", "spotalis.io", "weka.io")
PREFIXES_OF_OTHERS = ("aws-node-termination-handler",)  # those that are no domain

# Structs that carry codes. By section: the fields that tell the struct, whether it has no others, and the field with the code.
CODES: dict[str, tuple[tuple[frozenset[str], bool, str], ...]] = {
    "blockers": ((frozenset({"code", "message", "until"}), True, "code"),),
    "decision_reasons": ((frozenset({"code", "message"}), True, "code"),),
    "problems": (
        (frozenset({"regarding", "code", "message"}), False, "code"),
        (frozenset({"container", "code", "message"}), False, "code"),
    ),
    "admission_left_alone": ((frozenset({"code"}), True, "code"),),
    "scaling_reasons": ((frozenset({"group", "adding", "removing", "reason", "prices_per_hour"}), False, "reason"),),
}
EVENT = frozenset({"regarding", "reason", "message", "type"})  # the event that a decision asks for
# Of the structs with nothing but a code and a message, those whose code becomes the reason of an event.
EVENT_CODES = ("Shortage",)
CONDITION = frozenset({"type", "status", "reason", "message", "last_transition_time"})

# Words in CamelCase that are others': Kubernetes kinds, values of Kubernetes fields, HTTP headers, units.
NOT_OURS = frozenset(
    [
        "AdmissionReview",
        "ClusterRole",
        "ConfigMap",
        "CustomResourceDefinition",
        "DaemonSet",
        "DeleteOptions",
        "Deployment",
        "Event",
        "Eviction",
        "ExecCredential",
        "Lease",
        "List",
        "MutatingWebhookConfiguration",
        "Namespace",
        "NetworkPolicy",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "PodDisruptionBudget",
        "PriorityClass",
        "PrometheusRule",
        "ReplicaSet",
        "Role",
        "Secret",
        "Service",
        "ServiceAccount",
        "ServiceMonitor",
        "StatefulSet",
        "Status",
        "SubjectAccessReview",
        "TokenReview",
        "WekaCluster",
        "Binding",
        "All",
        "Always",
        "AlwaysAllow",
        "AlreadyExists",
        "Conflict",
        "DisruptionBudget",
        "DoNotSchedule",
        "DoesNotExist",
        "Equal",
        "Exists",
        "Expired",
        "Failure",
        "False",
        "Gone",
        "Gt",
        "Honor",
        "Hostname",
        "IfAvailable",
        "IfHealthyBudget",
        "IfNeeded",
        "Ignore",
        "In",
        "Ingress",
        "InternalError",
        "Lt",
        "Namespaced",
        "Never",
        "NoExecute",
        "NoSchedule",
        "NoneOnDryRun",
        "Normal",
        "NotIn",
        "NotOlderThan",
        "Pending",
        "PodScheduled",
        "PreferNoSchedule",
        "ReplicaFailure",
        "Running",
        "RuntimeDefault",
        "ScheduleAnyway",
        "ServiceUnavailable",
        "Succeeded",
        "Terminating",
        "True",
        "Unknown",
        "Warning",
        "Accept",
        "Authorization",
        "Host",
        "Location",
        "Server",
        "Vary",
        "Ei",
        "Gi",
        "Ki",
        "Mi",
        "Pi",
        "Ti",
        "Prometheus",
        "Commands",
        "KubeSizeID",
    ]
)
# Their arguments name Python types.
TYPE_ARGUMENTS = ("cast", "TypeVar", "NewType")

# Structs that are written as JSON.
EXPLAIN = {
    "workload": {"managed", "deletion_order", "drift"},
    "node": {"usage", "removable", "why_not"},
    "pod": {"phase", "awaits", "refusals"},
    "nodegroup": {"current", "adding", "removing", "staying"},
    "others": {"controller", "steps", "blockers", "errors"},
}
SIMULATE = {"evictions", "unavailable_minutes", "spot_share", "violations"}
DEMO_CHAPTER = {"title", "reached", "evictions"}
ALLOCATION_SHOW = {"exists", "holders", "free_drives"}
PICTURE = {"whole", "operator", "nodes", "pending", "decisions"}
PICTURE_SECTIONS = {
    "nodes": {"zone", "cpu", "memory", "pods"},
    "workloads": {"target", "action", "deletion_order", "replicas"},
    "groups": {"offerings", "price_per_hour", "history"},
    "pending": {"since", "awaits", "tried"},
    "allocations": {"drives", "ports", "waiting", "problems"},
}
AUDIT = {"operator", "controller", "uid", "result", "patch"}
DASHBOARD_DECISION = {"at", "controller", "object", "result"}
DRIVE = {"device", "container", "state"}
HOLDER = {"container", "state", "shared_gib"}

# Structs that outlive a process: where they are kept, and their fields.
STORED = {
    "ConfigMap plimsoll-disruptions-*": {"workload", "pod", "at", "lost"},
    "ConfigMap plimsoll-placement-*": {"workload", "since", "until", "shortages"},
    "ConfigMap plimsoll-vpsie-*": {"key", "ordered_at", "before", "answered"},
    "ConfigMap plimsoll-kwok-*": {"request", "ordered_at", "failure"},
    "WekaContainer condition AllocationProposed": {"node", "weka_port", "ports", "virtual_drives"},
    "VPSie machine notes": {"key", "group", "cluster", "offering", "datacenter"},
}
EXACTLY = frozenset({"VPSie machine notes"})  # other structs have these fields and more


@cache
def tree() -> SourceTree:
    return SourceTree(PACKAGE)


def operator_modules() -> Iterator[Module]:
    for name, module in tree().modules.items():
        if not any(name == outside or name.startswith(f"{outside}.") for outside in NOT_THE_OPERATOR):
            yield module


def shapes(fields: set[str] | frozenset[str], *, exact: bool = False) -> list[tuple[Module, ast.ClassDef]]:
    """The classes that declare these fields (exact: and no others)."""
    found = []
    for module in tree().modules.values():
        for shape in module.classes.values():
            declared = set(field_names(shape))
            if declared == fields or (not exact and declared > fields):
                found.append((module, shape))
    return found


def struct(fields: set[str] | frozenset[str], *, exact: bool = False) -> type[Any]:
    """The one struct that declares these fields."""
    found = shapes(fields, exact=exact)
    if len(found) != 1:
        names = ", ".join(f"{module.name}.{shape.name}" for module, shape in found) or "no class"
        raise LookupError(f"{names} has the fields {', '.join(sorted(fields))}: adapt {__file__}")
    module, shape = found[0]
    kind: type[Any] = getattr(importlib.import_module(module.name), shape.name)
    return kind


def defined(name: str) -> Any:
    """What has this name at the top of the one module that defines it."""
    found = [
        one for one in operator_modules() if name in one.constants or name in {_name_of(node) for node in one.tree.body}
    ]
    if len(found) != 1:
        where = ", ".join(module.name for module in found) or "no module"
        raise LookupError(f"{where} defines {name}: adapt {__file__}")
    return getattr(importlib.import_module(found[0].name), name)


def _name_of(node: ast.stmt) -> str:
    return node.name if isinstance(node, ast.ClassDef | ast.FunctionDef) else ""


# ── by name ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def settings() -> dict[str, Any]:
    """The configuration's keys. Each has a `default`, a `form` whose `plain` makes JSON of it, and a `variable`."""
    found: dict[str, Any] = defined("SETTINGS")
    return found


def catalogue() -> dict[str, Any]:
    """Metrics that decisions bring along, by name; each has a `type` and `labels`."""
    found: dict[str, Any] = defined("CATALOGUE")
    return found


def registry() -> Any:
    """The registry of prometheus_client with the metrics of the runtime."""
    return defined("Metrics")().registry


def exit_codes() -> Any:
    """The enumeration of exit codes of `plimsoll run`."""
    return defined("ExitCode")


def action_kinds() -> list[str]:
    """What audit lines and `plimsoll_actions_total` call each kind of action: today the names of the classes."""
    return [kind.__name__ for kind in get_args(defined("Action"))]


def kinds_of_explain() -> dict[str, str]:
    """What `plimsoll explain` takes for a kind, and the kind."""
    found: dict[str, str] = defined("ALIASES")
    return found


def kinds_in_a_snapshot() -> tuple[Any, ...]:
    """Each with `api_version`, `kind` and `type`, the struct that reads it."""
    found: tuple[Any, ...] = defined("Explainer")(defined("Config")()).watches
    return found


def configuration() -> Any:
    """The struct of the whole configuration file."""
    return defined("Config")
