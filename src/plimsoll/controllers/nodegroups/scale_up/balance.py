"""Groups that are alike but for their place are kept equally large."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from plimsoll.controllers.nodegroups.group_state import ZONE
from plimsoll.controllers.nodegroups.types import DATACENTER, NODE_GROUP, VPSIE_NODE
from plimsoll.kube.types.core import Labels
from plimsoll.scheduling.model import Packing, Template

# By these, groups that are otherwise alike may differ and still be balanced.
_APART = frozenset(
    {ZONE, "topology.kubernetes.io/region", DATACENTER, NODE_GROUP, VPSIE_NODE, "kubernetes.io/hostname"}
)


def balanced(
    packing: Packing,
    templates: Sequence[Template],
    sized: Mapping[str, int],
    again: Callable[[list[Template]], Packing],
) -> Packing:
    """The same number of new nodes, shared out over groups that are alike so that those become equally large.

    Kept only if the pods still find their places and no node more is needed: a pod may need the zone that it was given.
    """
    wanted = Counter(node.template for node in packing.new_nodes)
    limits = {template.name: template.max_nodes or 0 for template in templates}
    shares = dict(wanted)
    for alike in _alike(templates):
        total = sum(wanted[name] for name in alike)
        shares |= _shared_out(total, {name: sized.get(name, 0) for name in alike}, limits)
    if {name: count for name, count in shares.items() if count} == dict(wanted):
        return packing
    limited = [replace(one, max_nodes=shares.get(one.name, 0)) for one in templates]
    other = again(limited)
    as_good = len(other.unplaced) <= len(packing.unplaced) and len(other.new_nodes) <= len(packing.new_nodes)
    return other if as_good else packing


def _alike(templates: Sequence[Template]) -> list[list[str]]:
    found: dict[object, list[str]] = {}
    for template in templates:
        sizes = tuple((tuple(sorted(one.allocatable.items())), _common(one.labels)) for one in template.offerings)
        taints = tuple(sorted((taint.key, taint.value, taint.effect) for taint in template.taints))
        found.setdefault((sizes, taints, template.priority), []).append(template.name)
    return [names for names in found.values() if len(names) > 1]


def _common(labels: Labels) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, value) for key, value in labels.items() if key not in _APART))


def _shared_out(total: int, sized: Mapping[str, int], limits: Mapping[str, int]) -> dict[str, int]:
    """One after the other to the smallest that may still grow."""
    shares = dict.fromkeys(sized, 0)
    for _ in range(total):
        able = [name for name in sized if shares[name] < limits[name]]
        if not able:
            break
        smallest = min(able, key=lambda name: (sized[name] + shares[name], name))
        shares[smallest] += 1
    return shares
