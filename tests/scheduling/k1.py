"""The pods and instance types of Karpenter's own packing benchmark, by a seed."""

from __future__ import annotations

from random import Random
from typing import Any

from plimsoll.scheduling.model import NodeOffering, Template
from tests.scheduling import cases
from tests.scheduling.menus import HOSTNAME, ZONE, apart, container, evenly, merge, together

_LETTERS = "abcdefg"
_CPU = ("100m", "250m", "500m", "1", "1500m")
_MEMORY = ("100Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi")
CAPACITY_TYPE = "karpenter.sh/capacity-type"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"


def manifests(count: int, seed: int) -> list[dict[str, Any]]:
    """Five equal shares: no rules, spread over zones, spread over hosts, together in a zone, apart by host."""
    random = Random(seed)
    shares = (_generic, _zone_spread, _host_spread, _zone_affinity, _host_anti_affinity)
    return [
        merge(_size(random), share(random), {"metadata": {"name": f"k1-{number}", "namespace": "blue"}})
        for number, share in enumerate(share for share in shares for _ in range(count // len(shares)))
    ]


def _size(random: Random) -> dict[str, Any]:
    requests = {"cpu": random.choice(_CPU), "memory": random.choice(_MEMORY)}
    return {"spec": {"containers": [container("main", requests)]}}


def _labelled(key: str, letter: str) -> dict[str, Any]:
    return {"metadata": {"labels": {key: letter}}}


def _generic(random: Random) -> dict[str, Any]:
    return _labelled("my-label", random.choice(_LETTERS))


def _spread(random: Random, topology_key: str) -> dict[str, Any]:
    selector = {"matchLabels": {"my-label": random.choice(_LETTERS)}}
    return merge(_generic(random), evenly({"topologyKey": topology_key, "labelSelector": selector}))


def _zone_spread(random: Random) -> dict[str, Any]:
    return _spread(random, ZONE)


def _host_spread(random: Random) -> dict[str, Any]:
    return _spread(random, HOSTNAME)


def _zone_affinity(random: Random) -> dict[str, Any]:
    letter = random.choice(_LETTERS)
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"my-affinity": letter}}}
    return merge(_labelled("my-affinity", letter), together(term))


def _host_anti_affinity(_: Random) -> dict[str, Any]:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "nginx"}}}
    return merge(_labelled("app", "nginx"), apart(term))


def template(types: int = 400) -> Template:
    sold = [("spot", "zone-1"), ("spot", "zone-2"), *(("on-demand", f"zone-{number}") for number in (1, 2, 3))]
    return Template("k1", tuple(_offering(size, *kind) for size in range(1, types + 1) for kind in sold))


def _offering(size: int, capacity_type: str, zone: str) -> NodeOffering:
    return cases.offering(
        f"type-{size}-{capacity_type}-{zone}",
        {"cpu": str(size), "memory": f"{2 * size}Gi", "pods": str(10 * size)},
        0.1 * size + 0.1 * 2 * size,
        labels={ZONE: zone, CAPACITY_TYPE: capacity_type, INSTANCE_TYPE: f"type-{size}"},
    )


def case(count: int, seed: int) -> cases.Case:
    pods = tuple(cases.pod(manifest["metadata"]["name"], manifest) for manifest in manifests(count, seed))
    return cases.Case(pending=pods, templates=(template(),))
