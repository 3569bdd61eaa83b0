"""Which nodes would take the pods that wait: packed once, over what is there, what is coming, and every group that may grow."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from msgspec import Struct, field
from msgspec.structs import replace

from plimsoll.controllers.nodegroups.group_state import GroupSeen, Seen
from plimsoll.controllers.nodegroups.node_template import (
    Sizes,
    lasting_taints,
    node_labels,
    own_labels,
    usable_offerings,
)
from plimsoll.controllers.nodegroups.plans import Growing
from plimsoll.controllers.nodegroups.settings import Expander
from plimsoll.controllers.nodegroups.types import VPSieNode
from plimsoll.kube.types.core import DaemonSet, Metadata, OwnerReference, Pod
from plimsoll.providers.protocol import Offering as Sold
from plimsoll.scheduling.model import ComingNode, Offering, Packing, Template
from plimsoll.scheduling.pod_requests import allocatable, effective_requests


class ScaleUp(Struct, frozen=True):
    """What the packing came to."""

    new: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # group (namespace/name) → offering of each new node
    placed_on_coming: int = 0
    helped: int = 0  # pods that would run on new nodes
    unplaced: Mapping[str, str] = field(default_factory=dict)  # pod (namespace/name) → why no group helps it
    tried: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # the same, by what was asked
    places: Mapping[str, str] = field(default_factory=dict)  # pod → the node, there or coming, that it is counted on
    growing: Mapping[str, str] = field(default_factory=dict)  # pod → the group whose new node it is counted on

    @property
    def expected(self) -> dict[str, str]:
        """By node, a pod that is counted on there."""
        return {node: pod for pod, node in self.places.items()}

    def nodes_for(self, group: str) -> tuple[str, ...]:
        return self.new.get(group, ())


def question_of(
    pods: Sequence[Pod],
    groups: Sequence[GroupSeen],
    seen: Seen,
    *,
    room: Mapping[str, int],
    sizes: Sizes,
    daemons: Sequence[Pod] = (),
    expected: Sequence[ComingNode] = (),
) -> Growing:
    """`room`: how many nodes each group that may grow can still add; `expected`: nodes that come whether or not pods need them."""
    templates = templates_of(groups, room, seen, sizes, daemons)
    offered = priced(templates, pods, seen.settings.expander)
    gone = tuple(
        member.node_name
        for group in groups
        if not group.whole
        for member in group.members
        if not _takes_pods(member, group)
    )
    balance = seen.settings.balance_similar_groups
    sized = {group.key: group.current for group in groups} if balance else None
    return Growing(tuple(pods), tuple(offered), tuple(expected), gone, sized)


def _takes_pods(member: VPSieNode, group: GroupSeen) -> bool:
    """Whether the node stands in the picture as it is.

    One that is about to go does not. Nor does one that has not come to the end of its phases: its labels may still be missing.
    """
    name = member.metadata.name
    ready = member.phase == "Ready" and not member.terminating
    return ready and name not in group.unready and name in group.nodes


def coming_nodes(groups: Iterable[GroupSeen], seen: Seen, sizes: Sizes, daemons: Sequence[Pod]) -> list[ComingNode]:
    """Nodes that were ordered and are not ready yet."""
    found = []
    for group in groups:
        if group.joined == group.current:
            continue
        sighting = seen.sightings.of(group.group.spec.provider)
        for member in group.staying:
            if member.phase == "Ready":
                continue
            node = group.nodes.get(member.name)
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


def priced(templates: Sequence[Template], pods: Sequence[Pod], expander: Expander) -> list[Template]:
    """The templates with the prices and priorities by which the engine then chooses as the expander would.

    least-waste: a node costs what it holds, measured in what the pods ask for, so the cheapest plan buys least in vain.
    most-pods: every node costs the same, so the cheapest plan has the fewest, fullest nodes.
    random: by chance, but always the same for the same pods, so that a decision made twice is one decision.
    """
    if expander == "priority":
        return list(templates)
    if expander == "random":
        order = sorted(template.name for template in templates)
        material = sha256(",".join(pod.uid for pod in pods).encode()).hexdigest()
        random.Random(material).shuffle(order)  # noqa: S311 - spreads load, hides nothing
        return [replace(template, priority=order.index(template.name)) for template in templates]
    demand = dict.fromkeys(("cpu", "memory"), 0)
    for pod in pods:
        wanted = effective_requests(pod.spec)
        for name in demand:
            demand[name] += wanted.get(name, 0)

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


# ── what is told of it ───────────────────────────────────────────────────────────────────────────────────────────────


def told(packing: Packing, pods: Sequence[Pod]) -> ScaleUp:
    """`pods`: those that were packed, or more."""
    new: dict[str, list[str]] = {}
    for node in packing.new_nodes:
        new.setdefault(node.template, []).append(node.offering)
    helped = {uid: node.template for node in packing.new_nodes for uid in node.pods}
    elsewhere = {uid: place for uid, place in packing.placements.items() if uid not in helped}
    named = elsewhere.keys() | helped.keys() | packing.unplaced.keys()
    names = {pod.metadata.uid: f"{pod.namespace}/{pod.name}" for pod in pods if pod.metadata.uid in named}
    tried = {
        names[uid]: {where: refusal.message for where, refusal in refusals.items()}
        for uid, refusals in packing.unplaced.items()
    }
    unplaced = {
        pod: "; ".join(f"{where}: {message}" for where, message in refusals.items()) for pod, refusals in tried.items()
    }
    return ScaleUp(
        {group: tuple(offerings) for group, offerings in new.items()},
        len(elsewhere),
        len(helped),
        unplaced,
        tried,
        {names[uid]: node for uid, node in elsewhere.items()},
        {names[uid]: group for uid, group in helped.items()},
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
