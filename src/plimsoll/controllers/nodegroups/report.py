"""What people are told of a group: its status, gauges, and why nodes came, went or stayed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from plimsoll.controllers.nodegroups.group_state import GroupSeen, Seen
from plimsoll.controllers.nodegroups.node_template import setback_of
from plimsoll.controllers.nodegroups.patches import conditions_with, stamp
from plimsoll.controllers.nodegroups.scale_down.scale_down import Stays
from plimsoll.controllers.nodegroups.types import NODE_GROUPS, PHASES, NodeGroup, condition_of
from plimsoll.kube.codec import builtins
from plimsoll.kube.types.core import Condition
from plimsoll.runtime.decision import Counter, Event, Gauge, Ref

PREFIX = "vpsie_autoscaler_"


class Verdict(Struct, frozen=True):
    """What was decided about one group."""

    group: str  # namespace/name
    current: int
    desired: int
    adding: int = 0
    removing: int = 0
    reason: str = ""
    invalid: str = ""
    prices_per_hour: Mapping[str, float] = {}  # by offering, where the provider tells them


def prices_per_hour(one: GroupSeen, seen: Seen) -> dict[str, float]:
    """Of the offerings that the group has nodes of, or may have. An old price is told as well: it seldom changes."""
    spec, sighting = one.group.spec, seen.sightings.of(one.group.spec.provider)
    sold = sighting.offerings.get(spec.datacenter_id, ()) if sighting is not None else ()
    wanted = {*spec.offering_ids, *(member.spec.instance_type for member in one.staying)}
    return {one.id: one.price_per_hour for one in sold if one.id in wanted and one.price_per_hour > 0}


def labels_of(group: NodeGroup) -> dict[str, str]:
    return {"nodegroup": group.name, "namespace": group.namespace}


def scaling_up(group: GroupSeen, verdict: Verdict, why: str) -> Event:
    labels = labels_of(group.group)
    counts = (
        Counter(f"{PREFIX}scale_up_total", labels),
        Counter(f"{PREFIX}scaling_decisions_total", {**labels, "decision": "scale-up", "reason": verdict.reason}),
    )
    text = f"{verdict.adding} nodes are added to the {verdict.current} that there are: {why}"
    return Event(Ref.to(NODE_GROUPS, group.group), "ScalingUp", text, counts=counts)


def scaling_down(group: GroupSeen, node: str, reason: str, why: str) -> Event:
    labels = labels_of(group.group)
    counts = (
        Counter(f"{PREFIX}scale_down_total", labels),
        Counter(f"{PREFIX}scaling_decisions_total", {**labels, "decision": "scale-down", "reason": reason}),
    )
    return Event(Ref.to(NODE_GROUPS, group.group), "ScalingDown", f"node {node} is removed: {why}", counts=counts)


# What keeps every node of a group alike is told once for the group, not once a node.
_OF_THE_GROUP = frozenset({"AnotherInstallation", "NodeGroupMinSizeReached", "CooldownActive"})
# How many go at a time is nothing that anyone could mend.
_UNTOLD = frozenset({"AnotherDraining", "AnotherRemoved"})


def blocked(staying: Iterable[Stays]) -> list[Event]:
    """Each is told again only when it says something else."""
    found = []
    told: set[tuple[str, str]] = set()
    for one in staying:
        code, group = one.blocker.code, one.candidate.group
        if code in _UNTOLD or (code in _OF_THE_GROUP and (group.key, code) in told):
            continue
        told.add((group.key, code))
        counts = (Counter(f"{PREFIX}scale_down_blocked_total", {**labels_of(group.group), "reason": code}),)
        text = f"node {one.candidate.name} stays: {one.blocker.message}"
        found.append(Event(Ref.to(NODE_GROUPS, group.group), "ScaleDownBlocked", text, "Warning", counts=counts))
    return found


def gauges(groups: Sequence[GroupSeen], verdicts: Mapping[str, Verdict]) -> list[Gauge]:
    found = []
    for one in groups:
        labels, spec = labels_of(one.group), one.group.spec
        verdict = verdicts.get(one.key)
        for name, value in (
            ("desired", verdict.desired if verdict is not None else one.current),
            ("current", one.current),
            ("ready", one.ready),
            ("min", spec.min_nodes),
            ("max", spec.max_nodes),
        ):
            found.append(Gauge(f"{PREFIX}nodegroup_{name}_nodes", value, labels))
        phases = one.its.phases
        found += [
            Gauge(f"{PREFIX}vpsienode_phase", phases.get(phase, 0), {**labels, "phase": phase}) for phase in PHASES
        ]
    return found


def status_of(
    one: GroupSeen, verdict: Verdict, seen: Seen, *, created: int, scaled_up: bool, scaled_down: bool
) -> dict[str, Any]:
    """What changes in the group's status; empty where nothing does."""
    group, now = one.group, seen.now
    before = group.status
    setbacks = one.setbacks
    current, desired = verdict.current + verdict.adding - verdict.removing, verdict.desired
    wanted: dict[str, Any] = {
        "currentNodes": current,
        "desiredNodes": desired,
        "readyNodes": one.ready,
        "nodes": list(one.its.names),
        "createdNodes": created,
        "setbacks": builtins(setbacks),
    }
    had: dict[str, Any] = {
        "currentNodes": before.current_nodes,
        "desiredNodes": before.desired_nodes,
        "readyNodes": before.ready_nodes,
        "nodes": list(before.nodes or ()),
        "createdNodes": before.created_nodes,
        "setbacks": builtins(before.setbacks),
    }
    changed = {field: value for field, value in wanted.items() if had[field] != value}
    if scaled_up:
        changed |= {"lastScaleUpTime": stamp(now), "lastScaleTime": stamp(now)}
    if scaled_down:
        changed |= {"lastScaleDownTime": stamp(now), "lastScaleTime": stamp(now)}
    conditions = _conditions(one, verdict, setbacks, seen, current=current)
    if any(_differs(group, condition) for condition in conditions):
        changed["conditions"] = conditions_with(group, *conditions, now=now)
    return changed


def _conditions(
    one: GroupSeen, verdict: Verdict, setbacks: Sequence[Any], seen: Seen, *, current: int
) -> list[Condition]:
    spec = one.group.spec
    error = setback_of(one.setbacks, seen.now) or next((s for s in setbacks if s.until and s.until > seen.now), None)
    trouble = verdict.invalid or (error.message if error is not None else "")
    scaling = current != one.ready or bool(verdict.adding or verdict.removing)
    return [
        _condition("Ready", one.ready >= spec.min_nodes and not verdict.invalid, f"{one.ready} nodes are ready"),
        _condition("Scaling", scaling, f"{current} nodes, {one.ready} of them ready"),
        Condition(
            type="Error",
            status=str(bool(trouble)),
            reason=("InvalidSpec" if verdict.invalid else error.reason if error is not None else "NoError"),
            message=trouble,
        ),
        _condition("AtMinCapacity", current <= spec.min_nodes, f"{current} nodes, the minimum is {spec.min_nodes}"),
        _condition("AtMaxCapacity", current >= spec.max_nodes, f"{current} nodes, the maximum is {spec.max_nodes}"),
    ]


def _condition(kind: str, holds: bool, message: str) -> Condition:
    return Condition(type=kind, status=str(holds), reason=kind if holds else f"Not{kind}", message=message)


def _differs(group: NodeGroup, condition: Condition) -> bool:
    had = condition_of(group, condition.type)
    return had is None or (had.status, had.reason, had.message) != (
        condition.status, condition.reason, condition.message
    )  # fmt: skip
