"""The nodes that groups could add, and those that are already on order, as the packing engine takes them; used by `scale_up`."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from msgspec.structs import replace

from plimsoll.controllers.nodegroups.group_state import DecisionContext, GroupState
from plimsoll.controllers.nodegroups.node_template import NodeSizes, member_labels, node_labels, usable_offerings
from plimsoll.controllers.nodegroups.settings import Expander
from plimsoll.kube.types.apps import DaemonSet
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.meta import Metadata, OwnerReference
from plimsoll.providers.protocol import Offering as ProviderOffering
from plimsoll.scheduling.model import ComingNode, NodeOffering, Template
from plimsoll.scheduling.pod_requests import allocatable, effective_requests


def group_templates(
    groups: Iterable[GroupState],
    room: Mapping[str, int],
    context: DecisionContext,
    sizes: NodeSizes,
    daemons: Sequence[Pod],
) -> list[Template]:
    """One template per group that can add nodes. `room`: how many nodes each group may add; groups without room are left out."""
    found = []
    for group in groups:
        spec = group.group.spec
        inventory = context.inventory(spec.provider)
        if inventory is None or room.get(group.key, 0) <= 0:
            continue
        offerings = tuple(
            NodeOffering(
                offering.id,
                node_labels(group.group, offering),
                sizes.allocatable(group, offering),
                offering.price_per_hour,
            )
            for offering in usable_offerings(group.group, group.backoffs, inventory, context.now)
        )
        if offerings:
            found.append(
                Template(
                    group.key, offerings, taints=group.taints, max_nodes=room[group.key], daemons=tuple(daemons),
                    priority=spec.priority,
                )
            )  # fmt: skip
    return found


def ordered_nodes(
    groups: Iterable[GroupState], context: DecisionContext, sizes: NodeSizes, daemons: Sequence[Pod]
) -> list[ComingNode]:
    """Nodes that were ordered and are not ready yet."""
    found = []
    for group in groups:
        if group.joined == group.current:
            continue
        inventory = context.inventories.get(group.group.spec.provider)
        for member in group.remaining:
            if member.phase == "Ready":
                continue
            node = group.nodes.get(member.name)
            known = (
                inventory.offering(member.spec.datacenter_id, member.spec.instance_type)
                if inventory is not None
                else None
            )
            offering = known or ProviderOffering(member.spec.instance_type)
            actual = node.status.allocatable if node is not None else {}
            size = {
                **sizes.allocatable(group, offering),
                **{name: amount for name, amount in actual.items() if amount.milli > 0},
            }
            labels = member_labels(group.group, offering, member.name)
            found.append(ComingNode(member.node_name, labels, size, group.taints, tuple(daemons)))
    return found


def apply_expander(templates: Sequence[Template], pods: Sequence[Pod], expander: Expander) -> list[Template]:
    """The templates with prices and priorities that make the packing engine choose as the expander does.

    least-waste: a node costs its capacity in units of what the pods request, so the cheapest plan wastes least.
    most-pods: every node costs the same, so the cheapest plan has the fewest nodes.
    random: the order is a function of the pods, so that a repeated decision is the same decision.
    """
    if expander == "priority":
        return list(templates)
    if expander == "random":
        order = sorted(template.name for template in templates)
        seed = sha256(",".join(pod.uid for pod in pods).encode()).hexdigest()
        random.Random(seed).shuffle(order)  # noqa: S311 - spreads load, hides nothing
        return [replace(template, priority=order.index(template.name)) for template in templates]
    demand = dict.fromkeys(("cpu", "memory"), 0)
    for pod in pods:
        requests = effective_requests(pod.spec)
        for name in demand:
            demand[name] += requests.get(name, 0)

    def price(offering: NodeOffering) -> float:
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


def daemon_pods(daemon_sets: Iterable[DaemonSet]) -> list[Pod]:
    """One pod per DaemonSet, as it will run on each node that admits it."""
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
