"""Scale-down, from top to bottom: candidates → checks → choice. Empty nodes go together, others one at a time.

`controller` calls `removal_candidates` and `choose_nodes`; whether the pods of a node fit elsewhere is answered by `planner`. `drain`
removes the chosen nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from typing import TypeAlias

from msgspec import Struct

from plimsoll.controllers.nodegroups.group_state import DecisionContext, GroupState
from plimsoll.controllers.nodegroups.members import oldest_first
from plimsoll.controllers.nodegroups.planner import RemovalQuestion
from plimsoll.controllers.nodegroups.scale_down.checks.check import (
    Check,
    CheckContext,
    ChosenNodes,
    RemovalCandidate,
    first_blocker,
)
from plimsoll.controllers.nodegroups.scale_down.checks.registry import checks_at
from plimsoll.controllers.nodegroups.scale_down.unready import halt, unready_since, unready_too_long
from plimsoll.controllers.nodegroups.scale_down.utilization import NodeUse, Utilization
from plimsoll.controllers.nodegroups.spec import underutilization_duration
from plimsoll.controllers.nodegroups.types import BEING_REMOVED, BY_PHASE, VPSIE_NODES
from plimsoll.kube.labels import ZONE
from plimsoll.kube.types.core import Node
from plimsoll.kube.types.resources import NODES, NOT_READY, PODS, UNBOUND
from plimsoll.runtime.decision import Blocker
from plimsoll.scheduling.model import Removal

Ask: TypeAlias = Callable[[RemovalQuestion], Sequence[Removal] | None]

# The checks look up the owner and the budgets of every pod, so one decision checks only this many nodes.
MAX_CHECKED_PER_DECISION = 50


class BlockedNode(Struct, frozen=True):
    """A candidate that stays, and why."""

    candidate: RemovalCandidate
    blocker: Blocker


class ScaleDownPlan(Struct, frozen=True):
    chosen: tuple[RemovalCandidate, ...] = ()  # nodes to remove now
    blocked: tuple[BlockedNode, ...] = ()
    halted: Blocker | None = None  # why no node at all is removed
    more: bool = False  # not every candidate was checked: decide again soon


class CheckRounds:
    """Part of the controller's state. If one decision cannot check all candidates, the blockers that it found are kept and the
    next decision continues with the others."""

    def __init__(self) -> None:
        self._blockers: dict[str, Blocker] = {}  # by the Node's UID
        self._complete = True

    def begin(self) -> None:
        if self._complete:
            self._blockers.clear()
        self._complete = True

    def known(self, candidate: RemovalCandidate) -> Blocker | None:
        return self._blockers.get(candidate.node.metadata.uid)

    def record(self, candidate: RemovalCandidate, blocker: Blocker) -> None:
        self._blockers[candidate.node.metadata.uid] = blocker

    @property
    def incomplete(self) -> bool:
        return not self._complete

    def continue_later(self) -> None:
        """Some candidates were not checked: keep the blockers of the others for the next decision."""
        self._complete = False


# ── candidates ───────────────────────────────────────────────────────────────────────────────────────────────────────


def low_use_nodes(groups: Sequence[GroupState], use: NodeUse) -> Iterator[str]:
    """The UIDs of all nodes of the groups that are underutilized now."""
    for group in groups:
        yield from use.low(group.nodes.values(), group.group.spec.scale_down_policy)


def removal_candidates(
    group: GroupState, context: DecisionContext, use: NodeUse, low_since: Mapping[str, datetime]
) -> Iterator[RemovalCandidate]:
    """The nodes of one group that might be removed now: unready ones first, then the oldest, then the least used."""
    surplus = group.surplus
    if not group.group.spec.scale_down_policy.enabled or not (surplus or group.unready or low_since):
        return
    low_before = context.now - underutilization_duration(group.group)
    found = []
    for member in group.remaining:
        node = group.nodes.get(member.metadata.name)
        if node is None or member.phase != "Ready":
            continue
        ready = member.metadata.name not in group.unready
        since = low_since.get(node.metadata.uid)
        due = since is not None and since <= low_before if ready else unready_too_long(node, context)
        if surplus or due:
            used = use.of(node)
            highest = used.highest if used is not None else 0.0
            found.append(((ready, oldest_first(member)[0], highest, member.metadata.name), member, node, used, due))
    for _, member, node, used, due in sorted(found, key=lambda one: one[0]):
        why = _why(group, node, used, low_since.get(node.metadata.uid), due=due)
        pods = partial(context.pods_to_move_from, node.metadata.name)
        yield RemovalCandidate(member, node, group, pods, why, surplus_only=not due, utilization=used)


def _why(group: GroupState, node: Node, used: Utilization | None, low_since: datetime | None, *, due: bool) -> str:
    if not due:
        limit = "maxNodes" if group.current > group.group.spec.max_nodes else "desiredNodes"
        return f"group {group.key} has {group.surplus} nodes more than {limit}"
    if not node.ready:
        return f"node {node.name} is not ready since {unready_since(node):%H:%M:%S}"
    return f"node {node.name} is underutilized since {low_since:%H:%M:%S}: {used}"


def next_candidate_at(
    groups: Sequence[GroupState], context: DecisionContext, low_since: Mapping[str, datetime]
) -> datetime | None:
    """When the next node will have been underutilized, or not ready, for long enough to become a candidate."""
    due: list[datetime] = []
    for group in groups:
        if not group.group.spec.scale_down_policy.enabled:
            continue
        if low_since:
            duration = underutilization_duration(group.group)
            low_after = context.now - duration
            times = (low_since.get(node.metadata.uid) for node in group.nodes.values())
            first = min((since for since in times if since is not None and since > low_after), default=None)
            due += [first + duration] if first is not None else []
        unready = (unready_since(group.nodes[name]) for name in group.unready)
        timeout = context.settings.unready_timeout
        due += [since + timeout for since in unready if since is not None and since + timeout > context.now]
    return min(due, default=None)


# ── checks and choice ────────────────────────────────────────────────────────────────────────────────────────────────


def choose_nodes(
    candidates: Iterable[RemovalCandidate],
    groups: Sequence[GroupState],
    context: DecisionContext,
    ask: Ask,
    *,
    rounds: CheckRounds,
    expected: Mapping[str, str],
    further_checks: tuple[Check, ...] = (),
) -> ScaleDownPlan | None:
    """The candidates to remove now, and why the others stay. None: still computing whether their pods fit elsewhere.

    candidates: in order of preference. expected: node → a pending pod that is expected on it.
    """
    first = next(iter(candidates := iter(candidates)), None)
    if first is None:
        return ScaleDownPlan()
    if (halted := halt(context)) is not None:
        return ScaleDownPlan(halted=halted)
    limits = RemovalLimits(context)
    check_context = CheckContext(context, groups, expected=expected)
    removable, blocked = _check(
        chain((first,), candidates), check_context, limits=limits, rounds=rounds, further_checks=further_checks
    )
    moving = tuple(candidate.name for candidate in removable if candidate.pods)
    answers = ask(removal_question(moving, context)) if moving else ()
    if answers is None:
        return None
    removals = {answer.node: answer for answer in answers}
    chosen: list[RemovalCandidate] = []
    chosen_nodes = ChosenNodes()
    for candidate in removable:
        check_context = CheckContext(context, groups, chosen_nodes, removals, expected)
        # Checked again because the nodes chosen before in this decision count.
        blocker = first_blocker(checks_at("group", "node", "pods", "eviction"), candidate, check_context)
        if blocker is None and (blocker := first_blocker(checks_at("packing"), candidate, check_context)) is not None:
            rounds.record(candidate, blocker)
        blocker = blocker or limits.reached(candidate)
        if blocker is not None:
            blocked.append(BlockedNode(candidate, blocker))
            continue
        chosen.append(candidate)
        chosen_nodes.add(candidate)
        limits.add(candidate)
    return ScaleDownPlan(tuple(chosen), tuple(blocked), more=rounds.incomplete)


def _check(
    candidates: Iterable[RemovalCandidate],
    check_context: CheckContext,
    *,
    limits: RemovalLimits,
    rounds: CheckRounds,
    further_checks: tuple[Check, ...],
) -> tuple[list[RemovalCandidate], list[BlockedNode]]:
    """The candidates that pass every check but the packing, as many as one decision checks; and the blocked ones."""
    removable: list[RemovalCandidate] = []
    blocked: list[BlockedNode] = []
    of_group: dict[tuple[str, bool, str], Blocker | None] = {}  # the answer of the group checks, per group and zone
    rounds.begin()
    checked = 0
    for candidate in candidates:
        ready = candidate.node.ready  # for unready nodes the group checks differ from node to node
        place = (candidate.group.key, ready, candidate.node.labels.get(ZONE, "") if ready else candidate.name)
        if place not in of_group:
            of_group[place] = first_blocker(checks_at("group"), candidate, check_context)
            if (of_all := of_group[place]) is not None:
                blocked.append(BlockedNode(candidate, of_all))
        if of_group[place] is not None:
            continue
        blocker = first_blocker(checks_at("node"), candidate, check_context) or rounds.known(candidate)
        if blocker is None:
            if checked >= MAX_CHECKED_PER_DECISION:
                rounds.continue_later()
                break
            checked += 1
            blocker = limits.drains_reached(candidate)
            if blocker is None and (
                blocker := first_blocker((*checks_at("pods", "eviction"), *further_checks), candidate, check_context)
            ):
                rounds.record(candidate, blocker)
        if blocker is not None:
            blocked.append(BlockedNode(candidate, blocker))
        else:
            removable.append(candidate)
    return removable, blocked


def all_blockers(
    candidate: RemovalCandidate,
    groups: Sequence[GroupState],
    context: DecisionContext,
    ask: Ask,
    *,
    expected: Mapping[str, str],
    further_checks: tuple[Check, ...] = (),
) -> tuple[Blocker, ...]:
    """The blockers of every check, not only of the first that blocks; for explanations."""
    answers = ask(removal_question((candidate.name,), context)) or ()
    check_context = CheckContext(
        context, groups, removals={answer.node: answer for answer in answers}, expected=expected
    )
    checks = (*checks_at("group", "node", "pods", "eviction"), *further_checks, *checks_at("packing"))
    found = [check.blocker(candidate, check_context) for check in checks]
    return tuple(blocker for blocker in (halt(context), *found) if blocker is not None)


class RemovalLimits:
    """How many nodes are removed at a time: `max_parallel_drains` with pods, `max_empty_removals` without."""

    def __init__(self, context: DecisionContext) -> None:
        self._settings = context.settings
        self.empty = 0
        self.draining = sum(not one.terminating for one in context.view[VPSIE_NODES].by(BY_PHASE, "Terminating"))

    def drains_reached(self, candidate: RemovalCandidate) -> Blocker | None:
        """Checked before anything expensive is."""
        return self.reached(candidate) if candidate.pods else None

    def reached(self, candidate: RemovalCandidate) -> Blocker | None:
        drains, empty = self._settings.max_parallel_drains, self._settings.max_empty_removals
        if candidate.pods and self.draining >= drains:
            message = f"{self.draining} nodes are being drained, nodegroups.maxParallelDrains is {drains}"
            return Blocker("AnotherDraining", message)
        if not candidate.pods and self.empty >= empty:
            message = f"{self.empty} empty nodes are removed now, nodegroups.maxEmptyRemovals is {empty}"
            return Blocker("AnotherRemoved", message)
        return None

    def add(self, candidate: RemovalCandidate) -> None:
        if candidate.pods:
            self.draining += 1
        else:
            self.empty += 1


def removal_question(names: tuple[str, ...], context: DecisionContext) -> RemovalQuestion:
    """Nodes that are being removed or not ready take no pods, and pending pods are placed before the pods of the candidates."""
    candidates = set(names)
    excluded = {one.node_name for one in context.view[VPSIE_NODES].by(BEING_REMOVED, "")}
    excluded |= {node.name for node in context.view[NODES].by(NOT_READY, "")}
    pending = tuple(
        pod
        for pod in context.view[PODS].by(UNBOUND, "")
        if not (pod.terminating or pod.finished or pod.spec.scheduling_gates)
    )
    return RemovalQuestion(names, tuple(sorted(excluded - candidates)), pending)
