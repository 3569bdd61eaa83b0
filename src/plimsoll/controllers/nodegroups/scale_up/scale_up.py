"""Scale-up, from top to bottom: pending pods → which groups may grow → question → plan → orders.

Pending pods are packed once, over existing nodes, nodes on order and every group that may grow, so no two groups add a node for
the same pod. `controller` calls `plan_scale_up`; the packing itself is done by `planner`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from plimsoll.controllers.nodegroups.backoff import active_backoff
from plimsoll.controllers.nodegroups.group_state import DecisionContext, GroupState
from plimsoll.controllers.nodegroups.node_template import NodeSizes, member_labels, usable_offerings
from plimsoll.controllers.nodegroups.other_installations import left_to_other_installation
from plimsoll.controllers.nodegroups.planner import ScaleUpQuestion
from plimsoll.controllers.nodegroups.report import GroupVerdict
from plimsoll.controllers.nodegroups.scale_down.unready import nodes_to_replace
from plimsoll.controllers.nodegroups.scale_up.pending_pods import PendingPods
from plimsoll.controllers.nodegroups.scale_up.templates import apply_expander, group_templates, ordered_nodes
from plimsoll.controllers.nodegroups.spec import minimum_size, scale_up_cooldown
from plimsoll.controllers.nodegroups.types import (
    DATACENTER,
    FINALIZER,
    GROUP,
    MANAGED,
    NODE_GROUP,
    NODE_GROUPS,
    OFFERING,
    ORDERED_BY,
    ORDERED_FOR,
    PENDING_PODS,
    VPSIE_NODES,
    NodeGroup,
    VPSieNode,
)
from plimsoll.kube.types.core import Pod
from plimsoll.runtime.decision import Blocker, Create, Event, Reason, Ref
from plimsoll.scheduling.growth_options import GrowthOptions
from plimsoll.scheduling.model import ComingNode, Packing

Pack: TypeAlias = Callable[[ScaleUpQuestion], Packing | None]

MAX_NODE_NAME = 63  # a node's name becomes a label value


def plan_scale_up(
    groups: Sequence[GroupState],
    pending: PendingPods,
    context: DecisionContext,
    pack: Pack,
    daemons: Sequence[Pod] = (),
) -> ScaleUpOrders | None:
    """What each group orders now: what it lacks below its minimum size, and what pending pods need. None: still computing."""
    limits = growth_limits(groups, context)
    blockers = list(limits.blockers)
    plan = ScaleUpPlan()
    if pending.pods:
        waited = context.now - pending.since if pending.since is not None else timedelta(0)
        growing = [
            group
            for group in limits.growable
            if group.group.spec.scale_up_policy.enabled and waited >= _stabilization_window(group)
        ]
        sizes = NodeSizes(groups)
        room = {group.key: limits.room(group) for group in growing}
        upcoming = upcoming_nodes(groups, limits, context, sizes, daemons)
        packing = pack(
            scale_up_question(pending.pods, groups, context, room=room, sizes=sizes, daemons=daemons, upcoming=upcoming)
        )
        if packing is None:
            return None
        plan = scale_up_plan(packing, pending.pods)
    orders: dict[str, GroupOrder] = {}
    for group in groups:
        spec, missing = group.group.spec, limits.missing.get(group.key, 0)
        desired = calculate_desired_nodes(
            current=group.current, required_for_pending=missing + len(plan.nodes_for(group.key)),
            min_nodes=spec.min_nodes, max_nodes=spec.max_nodes, floor=spec.desired_nodes,
        )  # fmt: skip
        to_add = calculate_nodes_to_add(
            desired=desired, current=group.current, max_nodes=spec.max_nodes, batch_size=spec.scale_up_batch_size
        )
        cooldown = _cooldown(group, context)
        if cooldown is not None and to_add:
            blockers.append(cooldown)
        if group.key not in limits.missing or cooldown is not None:
            to_add = 0
        offerings = (*_default_offerings(group, context, missing), *plan.nodes_for(group.key))[:to_add]
        orders[group.key] = GroupOrder(desired, offerings, _why(group, missing, plan), missing)
    return ScaleUpOrders(plan, orders, tuple(blockers), tuple(_unhelped_events(limits.growable, plan)))


def calculate_desired_nodes(
    *, current: int, required_for_pending: int, min_nodes: int, max_nodes: int, floor: int | None = None
) -> int:
    """The current nodes plus those that pending pods need, at least `floor`, between `min_nodes` and `max_nodes`."""
    wanted = current + required_for_pending
    if floor is not None:
        wanted = max(wanted, floor)
    return min(max(wanted, min_nodes), max_nodes)


def calculate_nodes_to_add(*, desired: int, current: int, max_nodes: int, batch_size: int = 0) -> int:
    """The missing nodes, at most what `max_nodes` and `batch_size` allow; a batch size of 0 means no limit. Never negative."""
    missing = min(desired - current, max_nodes - current)
    if batch_size > 0:
        missing = min(missing, batch_size)
    return max(missing, 0)


# ── which groups may grow ────────────────────────────────────────────────────────────────────────────────────────────


class GrowthLimits(Struct, frozen=True):
    growable: tuple[GroupState, ...]  # groups that may add nodes
    blockers: tuple[Blocker, ...]  # what keeps each other group from growing
    missing: Mapping[str, int]  # growable group → nodes that it lacks below its minimum size

    def room(self, group: GroupState) -> int:
        """How many nodes a growable group can add for pods, after those that it lacks."""
        return group.group.spec.max_nodes - group.current - self.missing[group.key]


def growth_limits(groups: Sequence[GroupState], context: DecisionContext) -> GrowthLimits:
    blockers = {group.key: _growth_blocker(group, context) for group in groups}
    growable = tuple(group for group in groups if blockers[group.key] is None)
    found = tuple(blocker for blocker in blockers.values() if blocker is not None)
    return GrowthLimits(growable, found, {group.key: _missing_nodes(group, context) for group in growable})


def _growth_blocker(group: GroupState, context: DecisionContext) -> Blocker | None:
    spec = group.group.spec
    if (elsewhere := left_to_other_installation(group, context)) is not None:
        return elsewhere
    backoff = active_backoff(group.backoffs, context.now)
    if backoff is not None:
        message = f"group {group.key} is in back-off after {backoff.failures} failures: {backoff.message}"
        return Blocker(backoff.reason, message, until=backoff.until)
    inventory = context.inventory(spec.provider)
    if inventory is None:
        error = context.inventories.last_error(spec.provider)
        return Blocker("ProviderUnknown", f"group {group.key}: provider {spec.provider} cannot be used: {error}")
    if not usable_offerings(group.group, group.backoffs, inventory, context.now):
        wanted = ", ".join(spec.offering_ids)
        where = spec.datacenter_id or "any datacenter"
        message = f"group {group.key}: none of its offerings ({wanted}) can be ordered in {where} now"
        paused = [one for one in group.backoffs if one.until and one.until > context.now]
        for one in paused:
            message += (
                f"; {one.offering} is paused until {one.until:%H:%M:%S} after {one.failures} failures: {one.message}"
            )
        return Blocker(
            "NoOffering", message[:1000], until=min((one.until for one in paused if one.until), default=None)
        )
    return None


def _missing_nodes(group: GroupState, context: DecisionContext) -> int:
    """Nodes below the minimum size. A node that will be replaced counts as missing, so its replacement comes first if there is room."""
    missing = max(0, minimum_size(group.group) - (group.current - nodes_to_replace(group, context)))
    return min(missing, max(0, group.group.spec.max_nodes - group.current))


def _stabilization_window(group: GroupState) -> timedelta:
    return timedelta(seconds=group.group.spec.scale_up_policy.stabilization_window_seconds)


def _cooldown(group: GroupState, context: DecisionContext) -> Blocker | None:
    last = group.group.status.last_scale_up_time
    if last is None:
        return None
    until = last + scale_up_cooldown(group.group)
    if until <= context.now:
        return None
    message = f"group {group.key} was scaled up at {last:%H:%M:%S}; scaleUpCooldown ends at {until:%H:%M:%S}"
    return Blocker("ScaleUpCooldown", message, until=until)


# ── question ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def scale_up_question(
    pods: Sequence[Pod],
    groups: Sequence[GroupState],
    context: DecisionContext,
    *,
    room: Mapping[str, int],
    sizes: NodeSizes,
    daemons: Sequence[Pod] = (),
    upcoming: Sequence[ComingNode] = (),
) -> ScaleUpQuestion:
    """`room`: how many nodes each growing group can add; `upcoming`: nodes that come whether or not pods need them."""
    templates = group_templates(groups, room, context, sizes, daemons)
    excluded = tuple(
        member.node_name
        for group in groups
        if not group.all_ready
        for member in group.members.ordered
        if not _counts_as_existing(member, group)
    )
    balance = context.settings.balance_similar_groups
    group_sizes = {group.key: group.current for group in groups} if balance else None
    expanded = apply_expander(templates, pods, context.settings.expander)
    return ScaleUpQuestion(tuple(pods), tuple(expanded), tuple(upcoming), excluded, group_sizes)


def _counts_as_existing(member: VPSieNode, group: GroupState) -> bool:
    """Whether the packing engine takes the node as the cluster shows it.

    A node that is being removed takes no pods. A node that is still joining may lack labels, so it counts as upcoming instead.
    """
    name = member.metadata.name
    ready = member.phase == "Ready" and not member.terminating
    return ready and name not in group.unready and name in group.nodes


def upcoming_nodes(
    groups: Sequence[GroupState],
    limits: GrowthLimits,
    context: DecisionContext,
    sizes: NodeSizes,
    daemons: Sequence[Pod],
) -> list[ComingNode]:
    """Nodes on order, and nodes that groups lack below their minimum size: pending pods take those first."""
    nodes = ordered_nodes(groups, context, sizes, daemons)
    for group in limits.growable:
        spec, missing = group.group.spec, limits.missing[group.key]
        inventory = context.inventory(spec.provider)
        if inventory is None:
            continue
        default = usable_offerings(group.group, group.backoffs, inventory, context.now)[:1]
        for number, offering in enumerate(default * missing):
            name = f"{group.key}#{number}"
            size = sizes.allocatable(group, offering)
            nodes.append(
                ComingNode(name, member_labels(group.group, offering, name), size, group.taints, tuple(daemons))
            )
    return nodes


# ── plan ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class ScaleUpPlan(Struct, frozen=True):
    """The result of the packing, in names. Pods and groups are namespace/name."""

    new: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # group → offering of each new node
    placed_on_upcoming: int = 0  # pods that fit on existing or upcoming nodes
    helped: int = 0  # pods that would run on new nodes
    unplaced: Mapping[str, str] = field(default_factory=dict)  # pod → why no group helps it
    refusals: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # pod → template or node → why not there
    places: Mapping[str, str] = field(
        default_factory=dict
    )  # pod → the existing or upcoming node that it is expected on
    growing: Mapping[str, str] = field(default_factory=dict)  # pod → the group whose new node it is expected on

    @property
    def expected(self) -> dict[str, str]:
        """Node → a pod that is expected on it."""
        return {node: pod for pod, node in self.places.items()}

    def nodes_for(self, group: str) -> tuple[str, ...]:
        return self.new.get(group, ())


def scale_up_plan(packing: Packing, pods: Sequence[Pod]) -> ScaleUpPlan:
    """`pods`: those that were packed, or more."""
    new: dict[str, list[str]] = {}
    for node in packing.new_nodes:
        new.setdefault(node.template, []).append(node.offering)
    helped = {uid: node.template for node in packing.new_nodes for uid in node.pods}
    elsewhere = {uid: place for uid, place in packing.placements.items() if uid not in helped}
    named = elsewhere.keys() | helped.keys() | packing.unplaced.keys()
    names = {pod.metadata.uid: f"{pod.namespace}/{pod.name}" for pod in pods if pod.metadata.uid in named}
    refusals = {
        names[uid]: {where: refusal.message for where, refusal in found.items()}
        for uid, found in packing.unplaced.items()
    }
    return ScaleUpPlan(
        {group: tuple(offerings) for group, offerings in new.items()},
        len(elsewhere),
        len(helped),
        {pod: "; ".join(f"{where}: {message}" for where, message in found.items()) for pod, found in refusals.items()},
        refusals,
        {names[uid]: node for uid, node in elsewhere.items()},
        {names[uid]: group for uid, group in helped.items()},
    )


# ── orders ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class GroupOrder(Struct, frozen=True):
    """What one group orders now."""

    desired: int
    offerings: tuple[str, ...] = ()  # one per node to add now
    why: str = ""
    missing: int = 0  # how many of `offerings`, from the first, the group lacks below its minimum size


class ScaleUpOrders(Struct, frozen=True):
    plan: ScaleUpPlan = ScaleUpPlan()
    orders: Mapping[str, GroupOrder] = field(default_factory=dict)  # by group
    blockers: tuple[Blocker, ...] = ()
    events: tuple[Event, ...] = ()

    def adding(self, group: str) -> int:
        order = self.orders.get(group)
        return len(order.offerings) if order is not None else 0

    def why(self, group: str) -> str:
        order = self.orders.get(group)
        return order.why if order is not None else ""

    def verdict(self, group: GroupState, *, removing: int, spec_problem: str) -> GroupVerdict:
        order = self.orders.get(group.key)
        desired = order.desired if order is not None else group.current
        adding = self.adding(group.key)
        reason = "PendingPods" if self.plan.nodes_for(group.key) else "BelowDesired" if adding else ""
        return GroupVerdict(group.key, group.current, desired - removing, adding, removing, reason, spec_problem)

    def last_number(self, group: GroupState) -> int:
        """The number of the newest node that was ever created for the group, including those created now."""
        adding, created = self.adding(group.key), group.group.status.created_nodes
        return max(created, group.members.last_number) + adding if adding or not created else created

    def creations(self, group: GroupState, installation: str) -> list[Create]:
        """The VPSieNodes to create now."""
        order = self.orders.get(group.key)
        if order is None or not order.offerings:
            return []
        first = max(group.group.status.created_nodes, group.members.last_number) + 1
        found = [
            _creation(group.group, first + offset, offering, order, _annotations(offset, order, installation))
            for offset, offering in enumerate(order.offerings)
        ]
        if group.under_vpsie_crd:
            # That CRD requires the id, an integer, before there is a machine.
            found = [
                replace(one, body={**one.body, "spec": {**one.body["spec"], "vpsieInstanceID": 0}}) for one in found
            ]
        return found


def _default_offerings(group: GroupState, context: DecisionContext, count: int) -> tuple[str, ...]:
    """The offering of nodes that no pod needs yet."""
    inventory = context.inventory(group.group.spec.provider)
    offerings = usable_offerings(group.group, group.backoffs, inventory, context.now) if inventory is not None else []
    return (offerings[0].id,) * count if offerings else ()


def _why(group: GroupState, missing: int, plan: ScaleUpPlan) -> str:
    parts = []
    if missing:
        parts.append(f"the group must have at least {minimum_size(group.group)} nodes")
    if plan.nodes_for(group.key):
        parts.append(f"{plan.helped} pending pods fit on no existing node")
    return " and ".join(parts)


def _unhelped_events(groups: Sequence[GroupState], plan: ScaleUpPlan) -> list[Event]:
    """Says on each group that could grow why it does not help the pods that stay pending."""
    if not plan.unplaced or not groups:
        return []
    pod, why = next(iter(plan.unplaced.items()))
    text = f"{len(plan.unplaced)} pods stay pending because no node of any group would take them; {pod}: {why}"
    return [Event(Ref.to(NODE_GROUPS, group.group), "NotTriggerScaleUp", text[:1000]) for group in groups]


def _annotations(offset: int, order: GroupOrder, installation: str) -> dict[str, str]:
    for_pods = {} if offset < order.missing else {ORDERED_FOR: PENDING_PODS}
    return {ORDERED_BY: installation, **for_pods}


def node_name(group: NodeGroup, number: int) -> str:
    """A function of the group and the number, so that a repeated decision creates the same object.

    The suffix contains a hash of the group's UID: Nodes are cluster-wide, and a group of the same name in another namespace, or one
    that was recreated, must not produce the same names.
    """
    suffix = f"-{sha256(group.uid.encode()).hexdigest()[:5]}-{number}"
    return group.name[: MAX_NODE_NAME - len(suffix)].rstrip("-.").replace(".", "-") + suffix


def _creation(group: NodeGroup, number: int, offering: str, order: GroupOrder, annotations: dict[str, str]) -> Create:
    spec = group.spec
    owner = {
        "apiVersion": f"{GROUP}/v1alpha1", "kind": "NodeGroup", "name": group.name, "uid": group.uid,
        "controller": True, "blockOwnerDeletion": False,
    }  # fmt: skip
    labels = {MANAGED: "true", NODE_GROUP: group.name, DATACENTER: spec.datacenter_id, OFFERING: offering}
    body = {
        "metadata": {
            "labels": labels, "annotations": annotations, "ownerReferences": [owner],
            "finalizers": [FINALIZER],
        },
        "spec": {
            "nodeGroupName": group.name, "provider": spec.provider, "datacenterID": spec.datacenter_id,
            "instanceType": offering, "kubernetesVersion": spec.kubernetes_version, "project": spec.project,
            "resourceIdentifier": spec.resource_identifier, "osImageID": spec.os_image_id,
            "sshKeyIDs": list(spec.ssh_key_ids),
        },
    }  # fmt: skip
    reason = Reason("ScalingUp", order.why or "the group needs another node")
    return Create(VPSIE_NODES, group.namespace, node_name(group, number), body, reason)


# ── what groups could still add, for other controllers ───────────────────────────────────────────────────────────────


def growth_options(
    groups: Sequence[GroupState], context: DecisionContext, daemons: Sequence[Pod] = ()
) -> GrowthOptions:
    """What scale-up could add if pods were pending for long enough; a cooldown or stabilization window only delays it."""
    sizes, limits = NodeSizes(groups), growth_limits(groups, context)
    unable = [blocker.message for blocker in limits.blockers]
    room: dict[str, int] = {}
    for group in limits.growable:
        if not group.group.spec.scale_up_policy.enabled:
            unable.append(f"group {group.key} is not scaled up: scaleUpPolicy.enabled is false")
            continue
        room[group.key] = limits.room(group)
        if room[group.key] <= 0:
            unable.append(f"group {group.key} has its maximum of {group.group.spec.max_nodes} nodes")
    return GrowthOptions(
        templates=tuple(group_templates(limits.growable, room, context, sizes, daemons)),
        coming=tuple(upcoming_nodes(groups, limits, context, sizes, daemons)),
        unable=tuple(unable),
    )
