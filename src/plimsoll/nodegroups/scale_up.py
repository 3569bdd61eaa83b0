"""Which nodes would take the pods that wait: packed once, over what is there, what is coming, and every group that may grow."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256

from msgspec import Struct, field
from msgspec.structs import replace

from plimsoll.kube.resources import NODES
from plimsoll.kube.types import DaemonSet, Labels, Metadata, Node, OwnerReference, Pod
from plimsoll.nodegroups.blueprint import Sizes, lasting_taints, node_labels, own_labels, usable_offerings
from plimsoll.nodegroups.seen import ZONE, GroupSeen, Seen
from plimsoll.nodegroups.settings import Expander
from plimsoll.nodegroups.types import DATACENTER, NODE_GROUP, VPSIE_NODE, VPSieNode
from plimsoll.providers.provider import Offering as Sold
from plimsoll.scheduling.model import ComingNode, Offering, Packing, Template
from plimsoll.scheduling.pack import pack
from plimsoll.scheduling.requests import allocatable, effective_requests
from plimsoll.scheduling.snapshot import Snapshot

# By these, groups that are otherwise alike may differ and still be balanced.
_APART = frozenset(
    {ZONE, "topology.kubernetes.io/region", DATACENTER, NODE_GROUP, VPSIE_NODE, "kubernetes.io/hostname"}
)


class ScaleUp(Struct, frozen=True):
    """What the packing came to."""

    new: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # group (namespace/name) → offering of each new node
    placed_on_coming: int = 0
    helped: int = 0  # pods that would run on new nodes
    unplaced: Mapping[str, str] = field(default_factory=dict)  # pod (namespace/name) → why no group helps it
    tried: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # the same, by what was asked

    def nodes_for(self, group: str) -> tuple[str, ...]:
        return self.new.get(group, ())


def plan(
    pods: Sequence[Pod],
    groups: Sequence[GroupSeen],
    seen: Seen,
    snapshot: Snapshot,
    *,
    room: Mapping[str, int],
    daemons: Sequence[Pod] = (),
    expected: Sequence[ComingNode] = (),
) -> ScaleUp:
    """`room`: how many nodes each group that may grow can still add; `expected`: nodes that come whether or not pods need them."""
    if not pods:
        return ScaleUp()
    sizes = Sizes(seen.view[NODES])
    templates = templates_of(groups, room, seen, sizes, daemons)
    offered = priced(templates, pods, seen.settings.expander, seen.settings.random_seed)
    with snapshot.trial():
        for group in groups:
            for member in group.members:
                if not _takes_pods(member, group.nodes.get(member.name)):
                    snapshot.remove_node(member.node_name)
        packing = pack(snapshot, pods, offered, coming=expected)
        if seen.settings.balance_similar_groups:
            sized = {group.key: group.current for group in groups}
            packing = balanced(packing, offered, sized, lambda limited: pack(snapshot, pods, limited, coming=expected))
    return _told(packing, pods)


def _takes_pods(member: VPSieNode, node: Node | None) -> bool:
    """Whether the node stands in the picture as it is.

    One that is about to go does not. Nor does one that has not come to the end of its phases: its labels may still be missing.
    """
    return node is not None and node.ready and member.phase == "Ready" and not member.terminating


def coming_nodes(groups: Iterable[GroupSeen], seen: Seen, sizes: Sizes, daemons: Sequence[Pod]) -> list[ComingNode]:
    """Nodes that were ordered and are not ready yet."""
    found = []
    for group in groups:
        sighting = seen.sightings.of(group.group.spec.provider)
        for member in group.staying:
            node = group.nodes.get(member.name)
            if _takes_pods(member, node) or member.phase == "Ready":
                continue
            offering = (
                sighting.offering(member.spec.datacenter_id, member.spec.instance_type)
                if sighting is not None
                else None
            )
            sold = offering or Sold(member.spec.instance_type)
            size = node.status.allocatable if node is not None else {}
            size = size or sizes.allocatable(member.spec.datacenter_id, sold)
            labels = own_labels(group.group, sold, member.name)
            found.append(ComingNode(member.node_name, labels, size, lasting_taints(group.group), tuple(daemons)))
    return found


def templates_of(
    groups: Iterable[GroupSeen], room: Mapping[str, int], seen: Seen, sizes: Sizes, daemons: Sequence[Pod]
) -> list[Template]:
    found = []
    for one in groups:
        sighting = seen.sighting(one.group.spec.provider)
        if sighting is None or room.get(one.key, 0) <= 0:
            continue
        place = one.group.spec.datacenter_id
        offerings = tuple(
            Offering(sold.id, node_labels(one.group, sold), sizes.allocatable(place, sold), sold.price_per_hour)
            for sold in usable_offerings(one.group, one.setbacks, sighting, seen.now)
        )
        if offerings:
            found.append(
                Template(
                    one.key, offerings, taints=lasting_taints(one.group), max_nodes=room[one.key],
                    daemons=tuple(daemons), priority=one.group.spec.priority,
                )
            )  # fmt: skip
    return found


# ── expanders ────────────────────────────────────────────────────────────────────────────────────────────────────────


def priced(templates: Sequence[Template], pods: Sequence[Pod], expander: Expander, seed: int) -> list[Template]:
    """The templates with the prices and priorities by which the engine then chooses as the expander would.

    least-waste: a node costs what it holds, measured in what the pods ask for, so the cheapest plan buys least in vain.
    most-pods: every node costs the same, so the cheapest plan has the fewest, fullest nodes.
    """
    if expander == "priority":
        return list(templates)
    if expander == "random":
        order = sorted(template.name for template in templates)
        material = sha256(f"{seed}:{','.join(pod.uid for pod in pods)}".encode()).hexdigest()
        random.Random(material).shuffle(order)  # noqa: S311 - spreads load, hides nothing
        return [replace(template, priority=order.index(template.name)) for template in templates]
    demand: Counter[str] = Counter()
    for pod in pods:
        demand.update(effective_requests(pod.spec))

    def price(offering: Offering) -> float:
        if expander == "price":
            return offering.price
        if expander == "most-pods":
            return 1.0
        size = allocatable(offering.allocatable)
        return sum(size.get(name, 0) / max(1, demand[name]) for name in ("cpu", "memory")) + 1e-9

    return [
        replace(
            template, priority=0, offerings=tuple(replace(one, price=price(one)) for one in template.offerings)
        )
        for template in templates
    ]  # fmt: skip


# ── balance ──────────────────────────────────────────────────────────────────────────────────────────────────────────


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


# ── what is told of it ───────────────────────────────────────────────────────────────────────────────────────────────


def _told(packing: Packing, pods: Sequence[Pod]) -> ScaleUp:
    new: dict[str, list[str]] = {}
    for node in packing.new_nodes:
        new.setdefault(node.template, []).append(node.offering)
    names = {pod.uid: f"{pod.namespace}/{pod.name}" for pod in pods}
    helped = sum(len(node.pods) for node in packing.new_nodes)
    tried = {
        names[uid]: {where: refusal.message for where, refusal in refusals.items()}
        for uid, refusals in packing.unplaced.items()
    }
    unplaced = {
        pod: "; ".join(f"{where}: {message}" for where, message in refusals.items()) for pod, refusals in tried.items()
    }
    return ScaleUp(
        {group: tuple(offerings) for group, offerings in new.items()},
        len(packing.placements) - helped,
        helped,
        unplaced,
        tried,
    )


def daemon_pods(daemon_sets: Iterable[DaemonSet]) -> list[Pod]:
    """One pod a DaemonSet, as it will run on each node that admits it."""
    found = []
    for one in daemon_sets:
        template = one.spec.template
        owner = OwnerReference(kind="DaemonSet", name=one.name, uid=one.uid, controller=True)
        metadata = Metadata(
            name=one.name,
            namespace=one.namespace,
            uid=f"daemon-{one.uid}",
            labels=template.metadata.labels,
            owner_references=(owner,),
        )
        found.append(Pod(metadata=metadata, spec=template.spec))
    return found
