"""Balances similar groups: groups that differ only in their location are kept equally large. Called by `planner`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from plimsoll.controllers.nodegroups.types import DATACENTER, NODE_GROUP, VPSIE_NODE
from plimsoll.kube.labels import HOSTNAME, REGION, ZONE
from plimsoll.kube.types.meta import Labels
from plimsoll.scheduling.model import Packing, Template

# Labels in which similar groups may differ.
_LOCATION_LABELS = frozenset({ZONE, REGION, DATACENTER, NODE_GROUP, VPSIE_NODE, HOSTNAME})


def balanced(
    packing: Packing,
    templates: Sequence[Template],
    group_sizes: Mapping[str, int],
    again: Callable[[list[Template]], Packing],
) -> Packing:
    """The same number of new nodes, distributed so that similar groups become equally large.

    Returned only if all pods still fit and no additional node is needed: a pod may need the zone of its first plan.
    """
    wanted = Counter(node.template for node in packing.new_nodes)
    limits = {template.name: template.max_nodes or 0 for template in templates}
    shares = dict(wanted)
    for similar in _similar(templates):
        total = sum(wanted[name] for name in similar)
        shares |= _distribute(total, {name: group_sizes.get(name, 0) for name in similar}, limits)
    if {name: count for name, count in shares.items() if count} == dict(wanted):
        return packing
    limited = [replace(one, max_nodes=shares.get(one.name, 0)) for one in templates]
    other = again(limited)
    as_good = len(other.unplaced) <= len(packing.unplaced) and len(other.new_nodes) <= len(packing.new_nodes)
    return other if as_good else packing


def _similar(templates: Sequence[Template]) -> list[list[str]]:
    found: dict[object, list[str]] = {}
    for template in templates:
        sizes = tuple((tuple(sorted(one.allocatable.items())), _common(one.labels)) for one in template.offerings)
        taints = tuple(sorted((taint.key, taint.value, taint.effect) for taint in template.taints))
        found.setdefault((sizes, taints, template.priority), []).append(template.name)
    return [names for names in found.values() if len(names) > 1]


def _common(labels: Labels) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, value) for key, value in labels.items() if key not in _LOCATION_LABELS))


def _distribute(total: int, group_sizes: Mapping[str, int], limits: Mapping[str, int]) -> dict[str, int]:
    """Give nodes one by one to the smallest group that may still grow."""
    shares = dict.fromkeys(group_sizes, 0)
    for _ in range(total):
        able = [name for name in group_sizes if shares[name] < limits[name]]
        if not able:
            break
        smallest = min(able, key=lambda name: (group_sizes[name] + shares[name], name))
        shares[smallest] += 1
    return shares
