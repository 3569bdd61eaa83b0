"""What people see of a group: its status, metrics, and events about nodes that were added, removed or kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from plimsoll.controllers.nodegroups.backoff import active_backoff
from plimsoll.controllers.nodegroups.group_state import DecisionContext, GroupState
from plimsoll.controllers.nodegroups.patches import merge_conditions, status_time
from plimsoll.controllers.nodegroups.scale_down.scale_down import BlockedNode
from plimsoll.controllers.nodegroups.types import (
    NODE_GROUPS,
    PHASES,
    NodeEntry,
    NodeGroup,
    OfferingBackoff,
    find_condition,
)
from plimsoll.kube.codec import builtins
from plimsoll.kube.types.meta import Condition
from plimsoll.runtime.decision import Counter, Event, Gauge, Problem, Ref

PREFIX = "vpsie_autoscaler_"


class GroupVerdict(Struct, frozen=True):
    """The decision about one group."""

    group: str  # namespace/name
    current: int
    desired: int
    adding: int = 0
    removing: int = 0
    reason: str = ""
    spec_problem: str = ""
    provider_error: str = ""  # the provider's own words, if it cannot be used
    prices_per_hour: Mapping[str, float] = {}  # by offering, where the provider states a price


def prices_per_hour(one: GroupState, context: DecisionContext) -> dict[str, float]:
    """Prices of the offerings that the group uses or may use. An old price is reported as well: prices seldom change."""
    spec, inventory = one.group.spec, context.inventories.get(one.group.spec.provider)
    sold = inventory.offerings.get(spec.datacenter_id, ()) if inventory is not None else ()
    wanted = {*spec.offering_ids, *(member.spec.instance_type for member in one.remaining)}
    return {one.id: one.price_per_hour for one in sold if one.id in wanted and one.price_per_hour > 0}


def group_labels(group: NodeGroup) -> dict[str, str]:
    return {"nodegroup": group.name, "namespace": group.namespace}


def scaling_up(group: GroupState, verdict: GroupVerdict, why: str) -> Event:
    labels = group_labels(group.group)
    counts = (
        Counter(f"{PREFIX}scale_up_total", labels),
        Counter(f"{PREFIX}scaling_decisions_total", {**labels, "decision": "scale-up", "reason": verdict.reason}),
    )
    text = f"add {verdict.adding} nodes to the current {verdict.current}: {why}"
    return Event(Ref.to(NODE_GROUPS, group.group), "ScalingUp", text, counts=counts)


def scaling_down(group: GroupState, node: str, reason: str, why: str) -> Event:
    labels = group_labels(group.group)
    counts = (
        Counter(f"{PREFIX}scale_down_total", labels),
        Counter(f"{PREFIX}scaling_decisions_total", {**labels, "decision": "scale-down", "reason": reason}),
    )
    return Event(Ref.to(NODE_GROUPS, group.group), "ScalingDown", f"remove node {node}: {why}", counts=counts)


# Blockers that hold for every node of a group: reported once per group, not once per node.
_GROUP_CODES = frozenset({"AnotherInstallation", "NodeGroupMinSizeReached", "CooldownActive"})
# Limits on parallel removals resolve themselves: no event.
_SILENT_CODES = frozenset({"AnotherDraining", "AnotherRemoved", "NotUnderutilized"})


def blocked_events(blocked: Iterable[BlockedNode]) -> list[Event]:
    """Events are deduplicated later: one with the same text is not repeated."""
    found = []
    reported: set[tuple[str, str]] = set()
    for one in blocked:
        code, group = one.blocker.code, one.candidate.group
        if code in _SILENT_CODES or (code in _GROUP_CODES and (group.key, code) in reported):
            continue
        reported.add((group.key, code))
        counts = (Counter(f"{PREFIX}scale_down_blocked_total", {**group_labels(group.group), "reason": code}),)
        text = f"node {one.candidate.name} cannot be removed: {one.blocker.message}"
        found.append(Event(Ref.to(NODE_GROUPS, group.group), "ScaleDownBlocked", text, "Warning", counts=counts))
    return found


def group_gauges(groups: Sequence[GroupState], verdicts: Mapping[str, GroupVerdict]) -> list[Gauge]:
    found = []
    for one in groups:
        labels, spec = group_labels(one.group), one.group.spec
        verdict = verdicts.get(one.key)
        for name, value in (
            ("desired", verdict.desired if verdict is not None else one.current),
            ("current", one.current),
            ("ready", one.ready),
            ("min", spec.min_nodes),
            ("max", spec.max_nodes),
        ):
            found.append(Gauge(f"{PREFIX}nodegroup_{name}_nodes", value, labels))
        unusable = verdict is not None and bool(verdict.provider_error)
        found.append(Gauge(f"{PREFIX}nodegroup_provider_error", int(unusable), labels))
        phases = one.members.phases
        found += [
            Gauge(f"{PREFIX}vpsienode_phase", phases.get(phase, 0), {**labels, "phase": phase}) for phase in PHASES
        ]
    return found


def status_of(
    one: GroupState,
    verdict: GroupVerdict,
    context: DecisionContext,
    *,
    created: int,
    scaled_up: bool,
    scaled_down: bool,
) -> dict[str, Any]:
    """The fields of the group's status that change; empty if none does."""
    group, now = one.group, context.now
    before = group.status
    backoffs = one.backoffs
    current, desired = verdict.current + verdict.adding - verdict.removing, verdict.desired
    nodes, nodes_before = status_nodes(one)
    wanted: dict[str, Any] = {
        "currentNodes": current,
        "desiredNodes": desired,
        "readyNodes": one.ready,
        "nodes": nodes,
        "createdNodes": created,
        "observedGeneration": group.metadata.generation,
        "requestedNodes": group.spec.desired_nodes,
        # Pods that need more nodes than desiredNodes end the reduction.
        "targetNodes": one.target if not verdict.adding else None,
        "setbacks": builtins(backoffs),
        "offerings": builtins(one.offerings),
    }
    had: dict[str, Any] = {
        "currentNodes": before.current_nodes,
        "desiredNodes": before.desired_nodes,
        "readyNodes": before.ready_nodes,
        "nodes": nodes_before,
        "createdNodes": before.created_nodes,
        "observedGeneration": before.observed_generation,
        "requestedNodes": before.requested_nodes,
        "targetNodes": before.target_nodes,
        "setbacks": builtins(before.backoffs),
        "offerings": builtins(before.offerings),
    }
    changed = {field: value for field, value in wanted.items() if had[field] != value}
    if scaled_up:
        changed |= {"lastScaleUpTime": status_time(now), "lastScaleTime": status_time(now)}
    if scaled_down:
        changed |= {"lastScaleDownTime": status_time(now), "lastScaleTime": status_time(now)}
    conditions = _conditions(one, verdict, backoffs, context, current=current)
    if any(_differs(group, condition) for condition in conditions):
        changed["conditions"] = merge_conditions(group, *conditions, now=now)
    return changed


def status_nodes(one: GroupState) -> tuple[list[Any], list[Any]]:
    """What `status.nodes` should be, and what it is. Names, or objects under the CRD of the VPSie autoscaler."""
    before = list(one.group.status.nodes or ())
    if not one.under_vpsie_crd:
        return list(one.members.names), before
    by_name = {member.name: member for member in one.members.ordered}
    wanted = [
        {
            "nodeName": member.node_name,
            "vpsID": int(identity) if (identity := member.spec.vpsie_instance_id).isdecimal() else 0,
            "instanceType": member.spec.instance_type,
            "status": member.phase,
        }
        for name in one.members.names
        if (member := by_name.get(name)) is not None
    ]
    # Of the entries only the names are read: as long as those are right, the list stays as the other operator wrote it.
    written = [entry.node_name for entry in before if isinstance(entry, NodeEntry)]
    return wanted, wanted if written == [entry["nodeName"] for entry in wanted] else before


def _conditions(
    one: GroupState,
    verdict: GroupVerdict,
    backoffs: Sequence[OfferingBackoff],
    context: DecisionContext,
    *,
    current: int,
) -> list[Condition]:
    spec = one.group.spec
    scaling = current != one.ready or bool(verdict.adding or verdict.removing)
    counts = f"{current} nodes, {one.ready} of them ready"
    return [
        _condition("Ready", one.ready >= spec.min_nodes and not verdict.spec_problem, f"{one.ready} nodes are ready"),
        _condition("Scaling", scaling, counts),
        _error(one, verdict, backoffs, context),
        # kstatus: a group that cannot proceed is Stalled, one that is on its way is Reconciling.
        _condition("Reconciling", scaling and not verdict.spec_problem, counts),
        _condition("Stalled", bool(verdict.spec_problem), verdict.spec_problem),
        _condition("AtMinCapacity", current <= spec.min_nodes, f"{current} nodes, minNodes is {spec.min_nodes}"),
        _condition("AtMaxCapacity", current >= spec.max_nodes, f"{current} nodes, maxNodes is {spec.max_nodes}"),
    ]


def _error(
    one: GroupState, verdict: GroupVerdict, backoffs: Sequence[OfferingBackoff], context: DecisionContext
) -> Condition:
    """The condition Error. A pause because of unused nodes is no error."""
    if verdict.spec_problem:
        return Condition(type="Error", status="True", reason="InvalidSpec", message=verdict.spec_problem)
    if verdict.provider_error:
        message = f"provider {one.group.spec.provider} cannot be used: {verdict.provider_error}"
        return Condition(type="Error", status="True", reason="ProviderFailed", message=message)
    active = [
        pause for pause in backoffs if pause.until and pause.until > context.now and pause.reason != "NeverServed"
    ]
    pause = active_backoff(active, context.now) or next(iter(active), None)
    if pause is not None:
        return Condition(type="Error", status="True", reason=pause.reason, message=pause.message)
    return Condition(type="Error", status="False", reason="NoError")


def provider_problems(verdicts: Iterable[GroupVerdict], groups: Iterable[GroupState]) -> list[Problem]:
    """One Warning event per group whose provider cannot be used, and per change of the error."""
    by_key = {one.key: one.group for one in groups}
    return [
        Problem(
            Ref.to(NODE_GROUPS, by_key[verdict.group]),
            "ProviderFailed",
            f"NodeGroup {verdict.group}: provider {by_key[verdict.group].spec.provider} cannot be used: {verdict.provider_error}",
        )
        for verdict in verdicts
        if verdict.provider_error
    ]


def _condition(kind: str, holds: bool, message: str) -> Condition:
    return Condition(type=kind, status=str(holds), reason=kind if holds else f"Not{kind}", message=message)


def _differs(group: NodeGroup, condition: Condition) -> bool:
    had = find_condition(group, condition.type)
    return had is None or (had.status, had.reason, had.message) != (
        condition.status, condition.reason, condition.message
    )  # fmt: skip
