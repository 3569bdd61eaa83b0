"""What pods and nodes can ask for, one feature an entry, as fragments of manifests that can be mixed.

The universe is small on purpose (three zones, two namespaces, three apps, one port), so that what one pod asks for often
concerns another. Every entry is something that the API server accepts: the same pods can be sent to a real one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Fragment = Mapping[str, Any]

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
ZONES = ("z1", "z2", "z3")
NAMESPACES = {"blue": {"team": "blue"}, "green": {"team": "green", "shared": "yes"}}


def merge(*fragments: Fragment) -> dict[str, Any]:
    """Manifests laid over one another: mappings are merged, lists joined, other values replaced."""
    result: dict[str, Any] = {}
    for fragment in fragments:
        for key, value in fragment.items():
            if isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
                result[key] = merge(result[key], value)
            elif isinstance(value, list) and isinstance(result.get(key), list):
                result[key] = [*result[key], *value]
            else:
                result[key] = value
    return result


def without_repeats(fragments: Iterable[Fragment]) -> list[Fragment]:
    """At most one fragment of a kind: two of one menu can be more than the API server accepts in one pod."""
    seen: set[str] = set()
    kept = []
    for fragment in fragments:
        kinds = _paths(fragment)
        if not kinds & seen:
            seen |= kinds
            kept.append(fragment)
    return kept


def _paths(fragment: Fragment, prefix: str = "") -> set[str]:
    found = set()
    for key, value in fragment.items():
        path = f"{prefix}.{key}"
        if path == ".spec.containers":
            found |= {f"{path}.{item['name']}" for item in value}  # containers add up, unless two have the same name
        elif path in (".spec", ".metadata", ".spec.affinity", ".spec.affinity.nodeAffinity"):
            found |= _paths(value, path)
        else:
            found.add(path)
    return found


# ── resources ────────────────────────────────────────────────────────────────────────────────────────────────────────


def container(name: str, requests: Fragment, **more: Any) -> dict[str, Any]:
    # The API server wants limits equal to requests for extended resources and huge pages.
    limits = {key: value for key, value in requests.items() if "/" in key or key.startswith("hugepages-")}
    return {"name": name, "image": "none", "resources": {"requests": dict(requests), "limits": limits}, **more}


def _containers(*requests: Fragment) -> dict[str, Any]:
    return {"spec": {"containers": [container(f"main-{n}", request) for n, request in enumerate(requests)]}}


SIZES: tuple[Fragment, ...] = (
    _containers({"cpu": "500m", "memory": "256Mi"}),
    _containers({"cpu": "1", "memory": "1Gi"}),
    _containers({"cpu": "1500m", "memory": "128Mi"}),
    _containers({"cpu": "100m", "memory": "2Gi"}),
    _containers({"cpu": "250m", "memory": "64Mi"}, {"cpu": "0.25", "memory": "64Mi"}),
    _containers({"cpu": "3", "memory": "3Gi"}),
    _containers({}),
)

INIT: tuple[Fragment, ...] = (
    {"spec": {"initContainers": [container("first", {"cpu": "2", "memory": "64Mi"})]}},
    {"spec": {"initContainers": [container("helper", {"cpu": "500m", "memory": "64Mi"}, restartPolicy="Always")]}},
    {
        "spec": {
            "initContainers": [
                container("early", {"cpu": "1"}),
                container("helper", {"cpu": "500m"}, restartPolicy="Always"),
                container("late", {"cpu": "1500m"}),
            ]
        }
    },
)

OTHER_RESOURCES: tuple[Fragment, ...] = (
    {"spec": {"containers": [container("gpu", {"example.com/gpu": "1", "cpu": "100m"})]}},
    {"spec": {"containers": [container("gpus", {"example.com/gpu": "2"})]}},
    {"spec": {"containers": [container("scratch", {"ephemeral-storage": "5Gi"})]}},
    {"spec": {"containers": [container("pages", {"hugepages-2Mi": "4Mi", "cpu": "100m", "memory": "64Mi"})]}},
)

# A pod's own request replaces the sum of its containers'; it may not be smaller than that sum.
POD_LEVEL: Fragment = {"spec": {"resources": {"requests": {"cpu": "3500m", "memory": "3500Mi"}}}}

# Overhead comes from a RuntimeClass: the API server refuses it without one that says the same.
RUNTIME_CLASS = "heavy"
OVERHEAD: Fragment = {
    "spec": {"runtimeClassName": RUNTIME_CLASS, "overhead": {"cpu": "500m", "memory": "256Mi"}},
}


# ── which nodes ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _requires(*terms: Fragment) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [dict(t) for t in terms]}}
    return {"spec": {"affinity": {"nodeAffinity": required}}}


def _labels(*expressions: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {"matchExpressions": [_expression(*expression) for expression in expressions]}


def _expression(key: str, operator: str, values: list[str]) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": values} if values else {})}


def _named(operator: str, name: str) -> dict[str, Any]:
    return {"matchFields": [_expression("metadata.name", operator, [name])]}


NODE_RULES: tuple[Fragment, ...] = (
    {"spec": {"nodeSelector": {"disk": "ssd"}}},
    {"spec": {"nodeSelector": {ZONE: "z1"}}},
    _requires(_labels((ZONE, "In", ["z1", "z2"]))),
    _requires(_labels((ZONE, "NotIn", ["z1"]))),
    _requires(_labels(("disk", "Exists", []))),
    _requires(_labels(("disk", "DoesNotExist", []))),
    _requires(_labels(("rank", "Gt", ["3"]))),
    _requires(_labels(("rank", "Lt", ["3"]))),
    _requires(_labels(("disk", "Gt", ["3"]))),
    _requires(_labels(("disk", "In", ["ssd"]), (ZONE, "NotIn", ["z3"]))),
    _requires(_labels((ZONE, "In", ["z1"])), _labels(("rank", "Exists", []))),
    _requires({}, _labels((ZONE, "In", ["z2"]))),
    _requires({}),
    _requires(_named("In", "node-0")),
    _requires(_named("NotIn", "node-0")),
    _requires({**_named("NotIn", "node-1"), **_labels((ZONE, "In", ["z1", "z3"]))}),
    merge({"spec": {"nodeSelector": {"disk": "ssd"}}}, _requires(_labels((ZONE, "In", ["z2", "z3"])))),
)

TOLERATIONS: tuple[Fragment, ...] = tuple(
    {"spec": {"tolerations": [toleration]}}
    for toleration in (
        {"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"},
        {"key": "dedicated", "operator": "Exists"},
        {"key": "dedicated", "operator": "Equal", "value": "web"},
        {"operator": "Exists", "effect": "NoExecute"},
        {"operator": "Exists"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
    )
)


# ── ports and volumes ────────────────────────────────────────────────────────────────────────────────────────────────


def _port(**port: Any) -> dict[str, Any]:
    return {"containerPort": 8080, "hostPort": 8080, **port}


HOST_PORTS: tuple[Fragment, ...] = (
    {"spec": {"containers": [container("any", {}, ports=[_port()])]}},
    {"spec": {"containers": [container("udp", {}, ports=[_port(protocol="UDP")])]}},
    {"spec": {"containers": [container("one", {}, ports=[_port(hostIP="10.0.0.1")])]}},
    {"spec": {"containers": [container("two", {}, ports=[_port(hostIP="10.0.0.2")])]}},
    {"spec": {"initContainers": [container("side", {}, ports=[_port()], restartPolicy="Always")]}},
    {"spec": {"initContainers": [container("brief", {}, ports=[_port()])]}},
)

# Claims of these names exist in both namespaces, but for the last.
CLAIMS = ("in-z1", "labelled-z2", "regional")
VOLUMES: tuple[Fragment, ...] = tuple(
    {"spec": {"volumes": [{"name": f"v-{claim}", "persistentVolumeClaim": {"claimName": claim}}]}}
    for claim in (*CLAIMS, "missing")
)


# ── which neighbours ─────────────────────────────────────────────────────────────────────────────────────────────────

_APP_A: Fragment = {"matchLabels": {"app": "a"}}
_APP_B: Fragment = {"matchLabels": {"app": "b"}}

NEIGHBOURS: tuple[Fragment, ...] = (
    {"topologyKey": ZONE, "labelSelector": _APP_A},
    {"topologyKey": HOSTNAME, "labelSelector": _APP_A},
    {"topologyKey": HOSTNAME, "labelSelector": _APP_B},
    {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [_expression("app", "In", ["b", "c"])]}},
    {"topologyKey": HOSTNAME, "labelSelector": {"matchExpressions": [_expression("app", "NotIn", ["a"])]}},
    {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [_expression("tier", "DoesNotExist", [])]}},
    {"topologyKey": "disk", "labelSelector": _APP_A},
    {"topologyKey": ZONE, "labelSelector": {}},
    {"topologyKey": ZONE},
    {"topologyKey": ZONE, "labelSelector": _APP_A, "namespaces": ["green"]},
    {"topologyKey": HOSTNAME, "labelSelector": _APP_A, "namespaces": ["green", "blue"]},
    {"topologyKey": ZONE, "labelSelector": _APP_A, "namespaceSelector": {"matchLabels": {"team": "blue"}}},
    {"topologyKey": HOSTNAME, "labelSelector": _APP_B, "namespaceSelector": {}},
    {
        "topologyKey": HOSTNAME,
        "labelSelector": _APP_B,
        "namespaces": ["blue"],
        "namespaceSelector": {"matchExpressions": [_expression("shared", "Exists", [])]},
    },
    {"topologyKey": ZONE, "labelSelector": _APP_A, "matchLabelKeys": ["tier"]},
    {"topologyKey": HOSTNAME, "labelSelector": {}, "mismatchLabelKeys": ["app"]},
    {"topologyKey": HOSTNAME, "labelSelector": {}, "matchLabelKeys": ["app"]},
)


def together(*terms: Fragment) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [dict(term) for term in terms]}
    return {"spec": {"affinity": {"podAffinity": required}}}


def apart(*terms: Fragment) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [dict(term) for term in terms]}
    return {"spec": {"affinity": {"podAntiAffinity": required}}}


AFFINITY: tuple[Fragment, ...] = (
    *(together(term) for term in NEIGHBOURS),
    together(NEIGHBOURS[0], NEIGHBOURS[2]),
    together(NEIGHBOURS[0], NEIGHBOURS[1]),
)
ANTI_AFFINITY: tuple[Fragment, ...] = (
    *(apart(term) for term in NEIGHBOURS),
    apart(NEIGHBOURS[1], NEIGHBOURS[2]),
)


# ── how evenly ───────────────────────────────────────────────────────────────────────────────────────────────────────


def evenly(*constraints: Fragment) -> dict[str, Any]:
    defaults = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _APP_A}
    return {"spec": {"topologySpreadConstraints": [{**defaults, **constraint} for constraint in constraints]}}


SPREAD: tuple[Fragment, ...] = (
    evenly({"topologyKey": ZONE}),
    evenly({"topologyKey": HOSTNAME}),
    evenly({"topologyKey": ZONE, "maxSkew": 2}),
    evenly({"topologyKey": ZONE, "labelSelector": _APP_B}),
    evenly({"topologyKey": HOSTNAME, "labelSelector": _APP_B, "maxSkew": 2}),
    evenly({"topologyKey": ZONE, "minDomains": 3}),
    evenly({"topologyKey": HOSTNAME, "minDomains": 4}),
    evenly({"topologyKey": ZONE, "nodeAffinityPolicy": "Ignore"}),
    evenly({"topologyKey": HOSTNAME, "nodeTaintsPolicy": "Honor"}),
    evenly({"topologyKey": ZONE, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}),
    evenly({"topologyKey": ZONE, "matchLabelKeys": ["tier"]}),
    evenly({"topologyKey": ZONE}, {"topologyKey": HOSTNAME}),
    evenly({"topologyKey": "disk"}, {"topologyKey": ZONE, "maxSkew": 2, "labelSelector": _APP_B}),
    evenly({"topologyKey": HOSTNAME, "labelSelector": {}}),
    evenly({"topologyKey": ZONE, "labelSelector": None}),
)


# ── wishes, which give way ───────────────────────────────────────────────────────────────────────────────────────────

WISHES: tuple[Fragment, ...] = (
    evenly({"topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}),
    evenly({"topologyKey": "no-such-label", "whenUnsatisfiable": "ScheduleAnyway"}),
    {
        "spec": {
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 100, "preference": _labels(("disk", "In", ["tape"]))}
                    ]
                },
                "podAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 50, "podAffinityTerm": dict(NEIGHBOURS[0])}
                    ]
                },
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 50, "podAffinityTerm": dict(NEIGHBOURS[1])}
                    ]
                },
            }
        }
    },
)


POD_LABELS: tuple[Fragment, ...] = tuple(
    {"metadata": {"labels": {"app": app, **tier}}} for app in "abc" for tier in ({}, {"tier": "x"}, {"tier": "y"})
)

# What decides where a pod may go whoever else is there, and what depends on the others.
ALONE: tuple[Sequence[Fragment], ...] = (
    INIT,
    OTHER_RESOURCES,
    (POD_LEVEL, OVERHEAD),
    NODE_RULES,
    TOLERATIONS,
    VOLUMES,
    WISHES,
)
WITH_OTHERS: tuple[Sequence[Fragment], ...] = (HOST_PORTS, AFFINITY, ANTI_AFFINITY, SPREAD)


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────────

CAPACITIES: tuple[Fragment, ...] = (
    {"cpu": "2", "memory": "4Gi", "pods": "10"},
    {"cpu": "4", "memory": "8Gi", "pods": "3"},
    {"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/gpu": "2"},
    {"cpu": "8", "memory": "16Gi", "pods": "110", "ephemeral-storage": "8Gi", "hugepages-2Mi": "6Mi"},
    {"cpu": "3920m", "memory": "7500000Ki", "pods": "8", "example.com/gpu": "1"},
)

TAINTS: tuple[Fragment, ...] = (
    {"key": "dedicated", "value": "batch", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "web", "effect": "NoExecute"},
    {"key": "dedicated", "value": "web", "effect": "PreferNoSchedule"},
)
# What the node controller adds to a node that people have cordoned.
CORDON: Fragment = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}

NODE_LABELS: tuple[Fragment, ...] = (
    {},
    {"disk": "ssd"},
    {"disk": "hdd", "rank": "2"},
    {"rank": "5"},
    {"disk": "ssd", "rank": "five"},
)
