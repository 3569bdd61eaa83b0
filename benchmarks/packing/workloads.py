"""The pods, nodes and offerings of the packing benchmarks, as JSON: each run decodes them again, so that no two share a
part.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from plimsoll.kube.codec import decode, encode
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.quantity import Quantity, parse_quantity
from plimsoll.scheduling.model import NodeOffering, Template

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"

_CPU = ("100m", "250m", "500m", "1000m", "1500m")
_MEMORY = ("100Mi", "256Mi", "512Mi", "1024Mi", "2048Mi", "4096Mi")
_LETTERS = "abcdefg"
_TYPES = 400
# What Karpenter's own instance types reserve for the kubelet.
_RESERVED_CPU, _RESERVED_MEMORY = parse_quantity("100m"), parse_quantity("10Mi")

T = TypeVar("T")


class Cluster(NamedTuple):
    """Nodes and the pods on them, as JSON."""

    node_bodies: Sequence[bytes]
    pod_bodies: Sequence[bytes]

    def nodes(self) -> list[Node]:
        return decoded(self.node_bodies, Node)

    def pods(self) -> list[Pod]:
        return decoded(self.pod_bodies, Pod)


def decoded(bodies: Sequence[bytes], kind: type[T]) -> list[T]:
    return [decode(body, kind) for body in bodies]


def _pod(name: str, requests: dict[str, str], labels: dict[str, str], uid: str = "", **spec: Any) -> bytes:
    body = {
        "metadata": {"name": name, "namespace": "default", "uid": uid or f"uid-{name}", "labels": labels},
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}], **spec},
    }
    return encode(body)


def _node(name: str, allocatable: dict[str, str], labels: dict[str, str]) -> bytes:
    body = {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {HOSTNAME: name, **labels}},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }
    return encode(body)


# ── K1 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def diverse_pods(count: int, seed: int, *, owners: int = 0) -> list[bytes]:
    """Five equal shares, as in Karpenter's own benchmark; the remainder is generic.

    With `owners`, pods also carry the label that a Deployment adds and that no rule uses.
    """
    draw = random.Random(seed)
    hashes, uids = random.Random(seed), random.Random(seed)
    share = count // 5

    def requests() -> dict[str, str]:
        return {"cpu": draw.choice(_CPU), "memory": draw.choice(_MEMORY)}

    def label() -> dict[str, str]:
        return {"my-label": draw.choice(_LETTERS)}

    def diverse(name: str, labels: dict[str, str], **spec: Any) -> bytes:
        # Karpenter takes pods of one size in the order of their UIDs: random ones, as from an API server, mix the
        # shares.
        uid = str(UUID(int=uids.getrandbits(128), version=4))
        return _pod(name, requests(), owned(labels), uid, **spec)

    def owned(labels: dict[str, str]) -> dict[str, str]:
        return {**labels, "pod-template-hash": f"{hashes.randrange(owners):08x}"} if owners else labels

    pods = [diverse(f"generic-{i}", label()) for i in range(count - 4 * share)]
    for key, word in ((ZONE, "zone"), (HOSTNAME, "host")):
        for i in range(share):
            constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
            spread = [{**constraint, "labelSelector": {"matchLabels": label()}}]
            pods.append(diverse(f"{word}-spread-{i}", label(), topologySpreadConstraints=spread))
    for i in range(share):
        own = {"my-affinity": draw.choice(_LETTERS)}
        pods.append(diverse(f"together-{i}", own, affinity=_affinity("podAffinity", ZONE, own)))
    for i in range(share):
        own = {"app": "nginx"}
        pods.append(diverse(f"apart-{i}", own, affinity=_affinity("podAntiAffinity", HOSTNAME, own)))
    draw.shuffle(pods)
    return pods


def _affinity(kind: str, key: str, labels: dict[str, str]) -> dict[str, Any]:
    terms = [{"topologyKey": key, "labelSelector": {"matchLabels": labels}}]
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def diverse_types() -> Template:
    """Type i has i+1 CPU, 2(i+1) GiB and 10(i+1) pods, as spot in two zones and on demand in three, all at one price."""
    offerings = []
    for i in range(_TYPES):
        cpu, memory, pods = (parse_quantity(text) for text in (f"{i + 1}", f"{2 * (i + 1)}Gi", f"{10 * (i + 1)}"))
        allocatable = {
            "cpu": Quantity(cpu - _RESERVED_CPU),
            "memory": Quantity(memory - _RESERVED_MEMORY),
            "pods": pods,
        }
        price = 0.1 * cpu.units + 0.1 * memory.units / 1e9
        for capacity_type, zones in (("spot", (1, 2)), ("on-demand", (1, 2, 3))):
            for zone in zones:
                labels = {
                    ZONE: f"test-zone-{zone}",
                    CAPACITY_TYPE: capacity_type,
                    INSTANCE_TYPE: f"fake-it-{i}",
                }
                offerings.append(NodeOffering(f"fake-it-{i}/{capacity_type}/{zone}", labels, allocatable, price))
    return Template("default", tuple(offerings))


# ── C1, C2, C3 ───────────────────────────────────────────────────────────────────────────────────────────────────────


def two_shapes() -> list[bytes]:
    """C1: 51,000 pods of two shapes."""
    small = [_pod(f"small-{i}", {"cpu": "50m", "memory": "100"}, {"app": "small"}) for i in range(50_000)]
    large = [_pod(f"large-{i}", {"cpu": "95m", "memory": "190"}, {"app": "large"}) for i in range(1_000)]
    return small + large


def small_nodes() -> Template:
    """C1: one kind of node, of which at most 3,000 may be added."""
    return _one_size({"cpu": "1000m", "memory": "5000Mi", "pods": "100"}, max_nodes=3_000)


_WIDE = {"cpu": "10000m", "memory": "64Gi", "pods": "110"}


def alike() -> list[bytes]:
    """C2: 50,000 equal pods, 50 to a node."""
    return [_pod(f"pod-{i}", {"cpu": "200m", "memory": "64Mi"}, {"app": "web"}) for i in range(50_000)]


def wide_nodes() -> Template:
    return _one_size(_WIDE)


def _one_size(allocatable: dict[str, str], max_nodes: int | None = None) -> Template:
    size = {name: parse_quantity(amount) for name, amount in allocatable.items()}
    return Template("one-size", (NodeOffering("only", {}, size, 1.0),), max_nodes=max_nodes)


def half_empty(owners: int, seed: int, *, nodes: int = 2_000) -> Cluster:
    """C3: 40 pods on each node that use 40 % of its CPU together; all of one owner, or of many of mixed sizes."""
    draw = random.Random(seed)
    sizes = [draw.choice((40, 60, 80, 100, 120, 140, 160)) for _ in range(owners)] if owners > 1 else [100]
    pods = []
    for i in range(nodes):
        for j, owner in enumerate(_forty_percent(draw, sizes)):
            requests = {"cpu": f"{sizes[owner]}m", "memory": f"{sizes[owner]}Mi"}
            pods.append(_pod(f"pod-{i}-{j}", requests, {"app": f"owner-{owner}"}, nodeName=f"node-{i}"))
    return Cluster([_node(f"node-{i}", _WIDE, {}) for i in range(nodes)], pods)


def _forty_percent(draw: random.Random, sizes: Sequence[int]) -> list[int]:
    """Return the owners of forty pods, drawn, and exchanged one by one until their sizes add up."""
    owners = [draw.randrange(len(sizes)) for _ in range(40)]
    off = sum(sizes[owner] for owner in owners) - 4_000
    while off:
        at, owner = draw.randrange(40), draw.randrange(len(sizes))
        change = sizes[owner] - sizes[owners[at]]
        if abs(off + change) < abs(off):
            owners[at] = owner
            off += change
    return owners


# ── a cluster to be handed over ──────────────────────────────────────────────────────────────────────────────────────


def large_cluster(nodes: int, pods_a_node: int) -> Cluster:
    """Nodes with as many labels as clouds set, and pods of three hundred owners."""
    allocatable = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    made, pods = [], []
    for i in range(nodes):
        labels = {f"example.com/label-{k}": f"value-{i % 7 if k < 8 else i}" for k in range(14)}
        made.append(_node(f"node-{i}", allocatable, {ZONE: f"zone-{i % 3}", **labels}))
        for j in range(pods_a_node):
            owner = (i + j) % 300
            own = {"app": f"app-{owner}", "pod-template-hash": f"{owner:08x}"}
            pods.append(_pod(f"pod-{i}-{j}", {"cpu": "200m", "memory": "256Mi"}, own, nodeName=f"node-{i}"))
    return Cluster(made, pods)
