"""The pods, nodes and offerings of the packing benchmarks: built raw, as a reflector would decode them, nothing shared."""

from __future__ import annotations

import random
from typing import Any

from plimsoll.kube.codec import decode, encode
from plimsoll.kube.quantity import parse_quantity
from plimsoll.kube.types import Node, Pod
from plimsoll.scheduling.model import Offering, Template

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"

_CPU = ("100m", "250m", "500m", "1000m", "1500m")
_MEMORY = ("100Mi", "256Mi", "512Mi", "1024Mi", "2048Mi", "4096Mi")
_LETTERS = "abcdefg"


def pod(name: str, requests: dict[str, str], labels: dict[str, str], **spec: Any) -> Pod:
    """A pod that has been through JSON: every part of it is its own object."""
    body = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels},
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}], **spec},
    }
    return decode(encode(body), Pod)


def diverse_pods(count: int, seed: int) -> list[Pod]:
    """K1: five equal shares, as Karpenter's own benchmark draws them."""
    draw = random.Random(seed)
    share = count // 5
    pods = []

    def requests() -> dict[str, str]:
        return {"cpu": draw.choice(_CPU), "memory": draw.choice(_MEMORY)}

    def spread(key: str) -> list[dict[str, Any]]:
        selector = {"matchLabels": {"my-label": draw.choice(_LETTERS)}}
        return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]

    pods += [pod(f"generic-{i}", requests(), {"my-label": draw.choice(_LETTERS)}) for i in range(count - 4 * share)]
    for key, word in ((ZONE, "zone"), (HOSTNAME, "host")):
        for i in range(share):
            labels = {"my-label": draw.choice(_LETTERS)}
            pods.append(pod(f"{word}-spread-{i}", requests(), labels, topologySpreadConstraints=spread(key)))
    for i in range(share):
        labels = {"my-affinity": draw.choice(_LETTERS)}
        term = [{"topologyKey": ZONE, "labelSelector": {"matchLabels": labels}}]
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
        pods.append(pod(f"affinity-{i}", requests(), labels, affinity=affinity))
    for i in range(share):
        term = [{"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "nginx"}}}]
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
        pods.append(pod(f"anti-affinity-{i}", requests(), {"app": "nginx"}, affinity=affinity))
    draw.shuffle(pods)
    return pods


def four_hundred_types() -> Template:
    """K1: type i has i+1 CPU, 2(i+1) GiB and 10(i+1) pods, as spot in two zones and on demand in three."""
    offerings = []
    for i in range(400):
        cpu, memory_gib = i + 1, 2 * (i + 1)
        allocatable = {
            "cpu": parse_quantity(str(cpu)),
            "memory": parse_quantity(f"{memory_gib}Gi"),
            "pods": parse_quantity(str(10 * cpu)),
        }
        price = 0.1 * cpu + 0.1 * memory_gib
        for capacity_type, zones in (("spot", (1, 2)), ("on-demand", (1, 2, 3))):
            for zone in zones:
                labels = {
                    ZONE: f"test-zone-{zone}",
                    CAPACITY_TYPE: capacity_type,
                    INSTANCE_TYPE: f"fake-it-{i}",
                }
                offerings.append(Offering(f"fake-it-{i}/{capacity_type}/{zone}", labels, allocatable, price))
    return Template("default", tuple(offerings))


def node(name: str, allocatable: dict[str, str], labels: dict[str, str] | None = None) -> Node:
    body = {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {HOSTNAME: name, **(labels or {})}},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }
    return decode(encode(body), Node)
