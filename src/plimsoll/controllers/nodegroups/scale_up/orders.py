"""How many nodes a group should have, and how many of the missing ones are added now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import TypeAlias

from msgspec import Struct, field

from plimsoll.controllers.nodegroups.group_state import GroupSeen, Seen
from plimsoll.controllers.nodegroups.node_template import Sizes, usable_offerings
from plimsoll.controllers.nodegroups.plans import Growing
from plimsoll.controllers.nodegroups.report import Verdict
from plimsoll.controllers.nodegroups.scale_up.limits import expected_nodes, outlook
from plimsoll.controllers.nodegroups.scale_up.pending_pods import Waiting
from plimsoll.controllers.nodegroups.scale_up.question import ScaleUp, question_of, told
from plimsoll.controllers.nodegroups.spec import floor_of, scale_up_cooldown
from plimsoll.controllers.nodegroups.types import (
    DATACENTER,
    FINALIZER,
    GROUP,
    MANAGED,
    NODE_GROUP,
    NODE_GROUPS,
    OFFERING,
    ORDERED_BY,
    VPSIE_NODES,
    NodeGroup,
)
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import NODES
from plimsoll.runtime.decision import Blocker, Create, Event, Reason, Ref
from plimsoll.scheduling.model import Packing


def calculate_desired_nodes(
    *, current: int, required_for_pending: int, min_nodes: int, max_nodes: int, floor: int | None = None
) -> int:
    """What is there and what waiting pods need, at least `floor`, within the group's bounds."""
    wanted = current + required_for_pending
    if floor is not None:
        wanted = max(wanted, floor)
    return min(max(wanted, min_nodes), max_nodes)


def calculate_nodes_to_add(*, desired: int, current: int, max_nodes: int, batch_size: int = 0) -> int:
    """What is missing, no more than the maximum leaves room for and, unless it is 0, than the batch size; never negative."""
    missing = min(desired - current, max_nodes - current)
    if batch_size > 0:
        missing = min(missing, batch_size)
    return max(missing, 0)


# How many nodes each group gets now: its floor, what waiting pods need, within its maximum, its batch and its rest.

Pack: TypeAlias = Callable[[Growing], Packing | None]

LONGEST_NAME = 63  # a node's name becomes a label


class Share(Struct, frozen=True):
    """What one group gets."""

    desired: int
    offerings: tuple[str, ...] = ()  # of the nodes to add now
    why: str = ""


class Growth(Struct, frozen=True):
    plan: ScaleUp = ScaleUp()
    shares: Mapping[str, Share] = field(default_factory=dict)
    blockers: tuple[Blocker, ...] = ()
    events: tuple[Event, ...] = ()

    def adding(self, key: str) -> int:
        share = self.shares.get(key)
        return len(share.offerings) if share is not None else 0

    def why(self, key: str) -> str:
        share = self.shares.get(key)
        return share.why if share is not None else ""

    def verdict(self, one: GroupSeen, *, removing: int, wrong: str) -> Verdict:
        share = self.shares.get(one.key)
        desired = share.desired if share is not None else one.current
        adding = self.adding(one.key)
        reason = "PendingPods" if self.plan.nodes_for(one.key) else "BelowDesired" if adding else ""
        return Verdict(one.key, one.current, desired - removing, adding, removing, reason, wrong)

    def last_number(self, one: GroupSeen) -> int:
        """Of the nodes that were ever made for the group, those made now included."""
        adding, made = self.adding(one.key), one.group.status.created_nodes
        return max(made, one.its.last_number) + adding if adding or not made else made

    def creations(self, one: GroupSeen, installation: str) -> list[Create]:
        share = self.shares.get(one.key)
        if share is None or not share.offerings:
            return []
        first = max(one.group.status.created_nodes, one.its.last_number) + 1
        return [
            _creation(one, first + offset, offering, share.why, installation)
            for offset, offering in enumerate(share.offerings)
        ]


def grow(
    groups: Sequence[GroupSeen], waiting: Waiting, seen: Seen, pack: Pack, daemons: Sequence[Pod] = ()
) -> Growth | None:
    """None: the packing is still being worked out."""
    found = outlook(groups, seen)
    blockers = list(found.blockers)
    waited = seen.now - waiting.since if waiting.since is not None else timedelta(0)
    pods = waiting.pods
    growing = [one for one in found.able if one.group.spec.scale_up_policy.enabled and waited >= _patience(one)]
    packed = ScaleUp()
    if pods:
        sizes = Sizes(seen.view[NODES])
        room = {one.key: found.room(one) for one in growing}
        expected = expected_nodes(groups, found, seen, sizes, daemons)
        question = question_of(pods, groups, seen, room=room, sizes=sizes, daemons=daemons, expected=expected)
        packing = pack(question)
        if packing is None:
            return None
        packed = told(packing, pods)
    shares: dict[str, Share] = {}
    for one in groups:
        key, spec, lacking = one.key, one.group.spec, found.lacking.get(one.key, 0)
        needed = lacking + len(packed.nodes_for(key))
        desired = calculate_desired_nodes(
            current=one.current, required_for_pending=needed, min_nodes=spec.min_nodes, max_nodes=spec.max_nodes,
            floor=spec.desired_nodes,
        )  # fmt: skip
        to_add = calculate_nodes_to_add(
            desired=desired, current=one.current, max_nodes=spec.max_nodes, batch_size=spec.scale_up_batch_size
        )
        resting = _resting(one, seen)
        if resting is not None and to_add:
            blockers.append(resting)
        if key not in found.lacking or resting is not None:
            to_add = 0
        offerings = (*_usual(one, seen, lacking), *packed.nodes_for(key))[:to_add]
        shares[key] = Share(desired, offerings, _why(one, lacking, packed))
    return Growth(packed, shares, tuple(blockers), tuple(_unhelped(found.able, packed)))


def _patience(one: GroupSeen) -> timedelta:
    return timedelta(seconds=one.group.spec.scale_up_policy.stabilization_window_seconds)


def _resting(one: GroupSeen, seen: Seen) -> Blocker | None:
    last = one.group.status.last_scale_up_time
    if last is None:
        return None
    until = last + scale_up_cooldown(one.group)
    if until <= seen.now:
        return None
    return Blocker("ScaleUpCooldown", f"group {one.key} was scaled up at {last:%H:%M:%S}; it rests", until=until)


def _usual(one: GroupSeen, seen: Seen, count: int) -> tuple[str, ...]:
    """The offering for nodes that no pod has asked for yet."""
    sighting = seen.sighting(one.group.spec.provider)
    offerings = usable_offerings(one.group, one.setbacks, sighting, seen.now) if sighting is not None else []
    return (offerings[0].id,) * count if offerings else ()


def _why(one: GroupSeen, lacking: int, packed: ScaleUp) -> str:
    needed = len(packed.nodes_for(one.key))
    parts = []
    if lacking:
        parts.append(f"{floor_of(one.group)} are asked for")
    if needed:
        parts.append(f"{packed.helped} pods wait that fit nowhere else")
    return " and ".join(parts)


def _unhelped(groups: Sequence[GroupSeen], packed: ScaleUp) -> list[Event]:
    """Said on the pods' behalf where people look: a group that refuses says why."""
    if not packed.unplaced or not groups:
        return []
    pod, why = next(iter(packed.unplaced.items()))
    text = f"{len(packed.unplaced)} pods wait that no node of any group would take; {pod}: {why}"
    return [Event(Ref.to(NODE_GROUPS, one.group), "NotTriggerScaleUp", text[:1000]) for one in groups]


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def node_name(group: NodeGroup, number: int) -> str:
    """What follows from the need: whoever answers the same need asks for the same name."""
    # Nodes are known to the whole cluster: a group of the same name in another namespace, or made anew, has others.
    suffix = f"-{sha256(group.uid.encode()).hexdigest()[:5]}-{number}"
    return group.name[: LONGEST_NAME - len(suffix)].rstrip("-.").replace(".", "-") + suffix


def _creation(one: GroupSeen, number: int, offering: str, why: str, installation: str) -> Create:
    group, spec = one.group, one.group.spec
    name = node_name(group, number)
    owner = {
        "apiVersion": f"{GROUP}/v1alpha1", "kind": "NodeGroup", "name": group.name, "uid": group.uid,
        "controller": True, "blockOwnerDeletion": False,
    }  # fmt: skip
    labels = {MANAGED: "true", NODE_GROUP: group.name, DATACENTER: spec.datacenter_id, OFFERING: offering}
    body = {
        "metadata": {
            "labels": labels, "annotations": {ORDERED_BY: installation}, "ownerReferences": [owner],
            "finalizers": [FINALIZER],
        },
        "spec": {
            "nodeGroupName": group.name, "provider": spec.provider, "datacenterID": spec.datacenter_id,
            "instanceType": offering, "kubernetesVersion": spec.kubernetes_version, "project": spec.project,
            "resourceIdentifier": spec.resource_identifier, "osImageID": spec.os_image_id,
            "sshKeyIDs": list(spec.ssh_key_ids),
        },
    }  # fmt: skip
    return Create(VPSIE_NODES, group.namespace, name, body, Reason("ScalingUp", why or "a node more"))
