"""From the cluster to what is done about its nodes.

Two kinds of key. One, for the whole cluster, says how many nodes each group has: pods that wait are packed once over all groups, so
no two groups add a node for the same pod. The other, one a VPSieNode, sees a single node through its life.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar

from msgspec.structs import replace

from plimsoll.controllers.nodegroups import other_installations, report
from plimsoll.controllers.nodegroups.group_state import GroupSeen, Seen, groups_in
from plimsoll.controllers.nodegroups.lifecycle.phases import NodeDecision, live
from plimsoll.controllers.nodegroups.members import Roll
from plimsoll.controllers.nodegroups.node_template import Sizes
from plimsoll.controllers.nodegroups.patches import LEAVING, conditions_with, group_status, node_status, stamp, untaint
from plimsoll.controllers.nodegroups.plans import AtOnce, Plans
from plimsoll.controllers.nodegroups.provider_inventory import Sightings
from plimsoll.controllers.nodegroups.report import Verdict
from plimsoll.controllers.nodegroups.scale_down.candidates import candidates, low_nodes, next_due
from plimsoll.controllers.nodegroups.scale_down.context import Candidate, Check
from plimsoll.controllers.nodegroups.scale_down.drain import CHOSEN, leave
from plimsoll.controllers.nodegroups.scale_down.measured_usage import USE_OF_NODES, Measured
from plimsoll.controllers.nodegroups.scale_down.scale_down import Ask, Rounds, ScaleDown, Stays, all_blockers, choose
from plimsoll.controllers.nodegroups.scale_down.utilisation import LowSince, Requested, Used
from plimsoll.controllers.nodegroups.scale_up.growth_options import prospects
from plimsoll.controllers.nodegroups.scale_up.orders import Growth, grow
from plimsoll.controllers.nodegroups.scale_up.pending_pods import nominated, waiting_pods
from plimsoll.controllers.nodegroups.scale_up.question import ScaleUp, daemon_pods, question_of, told
from plimsoll.controllers.nodegroups.settings import NodeGroupSettings
from plimsoll.controllers.nodegroups.spec import invalid
from plimsoll.controllers.nodegroups.types import (
    BY_GROUP,
    BY_NODE_NAME,
    GROUP,
    NODE_GROUPS,
    VPSIE_NODE,
    VPSIE_NODES,
    NodeGroup,
    VPSieNode,
)
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Condition, DaemonSet, KubeObject, Node, Pod
from plimsoll.kube.types.policy import PodDisruptionBudget
from plimsoll.kube.types.resources import (
    BUDGETS,
    BY_TAINT,
    CLAIMS,
    DAEMONSETS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICASETS,
    STATEFULSETS,
    UNBOUND,
    VOLUMES,
    Key,
    Resource,
)
from plimsoll.runtime.decision import Action, Blocker, Decision, Patch, Permission, Problem, Reason, Ref
from plimsoll.scheduling.growth_options import Prospects
from plimsoll.scheduling.snapshot_cache import Picture

CLUSTER = Key("NodeGroups", "", "all")
NEXT_LOOK = timedelta(seconds=1)  # where not all nodes that might go could be looked at in one decision


class GroupsDecision(Decision, frozen=True, kw_only=True):
    """How many nodes each group has, and why."""

    verdicts: tuple[Verdict, ...] = ()
    scale_up: ScaleUp = ScaleUp()
    staying: tuple[Stays, ...] = ()  # nodes that might have gone, and what keeps them


class NodeGroupController:
    name: ClassVar[str] = "nodegroups"

    def __init__(
        self,
        settings: NodeGroupSettings,
        sightings: Sightings,
        further_checks: Sequence[Check] = (),
        measured: Measured | None = None,
        plans: Plans | None = None,
    ) -> None:
        """
        further_checks: what others than the node groups know against removing a node.
        measured: where a node counts as little used by what it really uses, not by what its pods request.
        plans: who packs, where a decision must not take the time for it itself.
        """
        self._settings = settings
        self.sightings = sightings
        self.measured = measured
        self._further_checks = tuple(further_checks)
        self.plans: Plans = plans or AtOnce()
        self._picture = Picture()
        self._low_since = LowSince()
        self._rounds = Rounds()
        self._roll = Roll()
        self._last: GroupsDecision | None = None

    @property
    def permissions(self) -> tuple[Permission, ...]:
        needed = (
            Permission("", "pods", "get"),
            Permission("", "pods/eviction", "create"),
            *(Permission("", "nodes", verb) for verb in ("get", "patch", "delete")),
            *(Permission(GROUP, "vpsienodes", verb) for verb in ("create", "get", "patch", "delete")),
            Permission(GROUP, "nodegroups", "get"),
            *(Permission(GROUP, kind, "patch") for kind in ("vpsienodes/status", "nodegroups/status")),
        )
        return (*needed, USE_OF_NODES) if self.measured is not None else needed

    @property
    def watches(self) -> tuple[Resource[Any], ...]:
        seen: tuple[Resource[Any], ...] = (
            NODE_GROUPS, VPSIE_NODES, NODES, PODS, BUDGETS, NAMESPACES, CLAIMS, VOLUMES, DAEMONSETS, DEPLOYMENTS,
            REPLICASETS, STATEFULSETS,
        )  # fmt: skip
        holders = self._settings.holders
        return (*seen, holders.resource) if holders is not None else seen

    # ── which keys does a change concern? ────────────────────────────────────────────────────────────────────────────

    def keys(self, _: Resource[Any], changed: KubeObject, view: View) -> Iterable[Key]:
        match changed:
            case NodeGroup():
                return (
                    CLUSTER,
                    *(
                        VPSIE_NODES.key(one)
                        for one in view[VPSIE_NODES].by(BY_GROUP, f"{changed.namespace}/{changed.name}")
                    ),
                )
            case VPSieNode():
                return (VPSIE_NODES.key(changed), CLUSTER)
            case Node():
                return (CLUSTER, *(VPSIE_NODES.key(one) for one in view[VPSIE_NODES].by(BY_NODE_NAME, changed.name)))
            case Pod():
                if not changed.spec.node_name:
                    return (CLUSTER,)
                own = view[VPSIE_NODES].by(BY_NODE_NAME, changed.spec.node_name)
                return (CLUSTER, *(VPSIE_NODES.key(one) for one in own if one.leaving)) if own else ()
            case PodDisruptionBudget() | DaemonSet():
                return (CLUSTER,)
            case _:
                return ()

    # ── what is to be done? ──────────────────────────────────────────────────────────────────────────────────────────

    def decide(self, key: Key, view: View, now: datetime) -> Decision:
        seen = Seen(view, now, self._settings, self.sightings, self._roll)
        if key == CLUSTER:
            return self._all_groups(seen)
        node = view[VPSIE_NODES].get(key.namespace, key.name)
        if node is None:
            return NodeDecision(reason=Reason("Gone", f"{key} is gone"), forget=True)
        if node.terminating or node.phase in ("Terminating", "Deleting"):
            return leave(node, seen, self._ask(key, view), self._further_checks)
        return live(node, seen)

    def keeps(self, key: Key, view: View, now: datetime) -> tuple[Blocker, ...]:
        """Everything that speaks against removing a VPSieNode's node now, whether or not anyone wants to; for explanations."""
        seen = Seen(view, now, self._settings, self.sightings, self._roll)
        groups = groups_in(seen)
        for group in groups:
            for member in group.staying:
                node = group.nodes.get(member.name)
                if node is not None and VPSIE_NODES.key(member) == key:
                    candidate = Candidate(member, node, group, partial(seen.must_move_from, node.name))
                    return all_blockers(
                        candidate, groups, seen, self._ask(key, view),
                        expected=self._expected(key, groups, seen), further_checks=self._further_checks,
                    )  # fmt: skip
        return ()

    def _expected(self, key: Key, groups: Sequence[GroupSeen], seen: Seen) -> dict[str, str]:
        """The nodes that are there and that pods which wait are counted on."""
        unbound = seen.view[PODS].by(UNBOUND, "")
        waiting = waiting_pods(unbound, seen.now, seen.settings.unschedulable_pod_grace).pods
        question = question_of(waiting, groups, seen, room={}, sizes=Sizes(()))
        packing = self.plans.packing(key, question, self._picture.of(seen.view)) if waiting else None
        counted_on = told(packing, waiting).expected if packing is not None else {}
        return {**counted_on, **nominated(unbound)}

    def _ask(self, key: Key, view: View) -> Ask:
        return lambda question: self.plans.removals(key, question, self._picture.of(view))

    def prospects(self, view: View, now: datetime) -> Prospects:
        """What the groups could still bring, for whoever is about to send a pod away."""
        seen = Seen(view, now, self._settings, self.sightings, self._roll)
        sound = [one for one in groups_in(seen) if invalid(one.group) is None and not one.group.terminating]
        return prospects(sound, seen, daemon_pods(view[DAEMONSETS]))

    def _all_groups(self, seen: Seen) -> GroupsDecision:
        groups = groups_in(seen)
        wrong = {one.key: message for one in groups if (message := invalid(one.group)) is not None}
        sound = [one for one in groups if one.key not in wrong and not one.group.terminating]
        snapshot = self._picture.of(seen.view)
        unbound = seen.view[PODS].by(UNBOUND, "")
        waiting = waiting_pods(unbound, seen.now, seen.settings.unschedulable_pod_grace)
        used: Used = self.measured.at(seen.now) if self.measured is not None else Requested(snapshot)
        low_since = self._low_since.look(low_nodes(sound, used), seen.now)
        daemons = daemon_pods(seen.view[DAEMONSETS]) if waiting.pods else ()
        growth = grow(
            sound, waiting, seen, lambda question: self.plans.packing(CLUSTER, question, snapshot), daemons
        )  # fmt: skip
        if growth is None:
            return self._still_computing("which nodes the pods that wait need")
        asked = (
            candidate
            for one in sound
            if not growth.adding(one.key)
            for candidate in candidates(one, seen, used, low_since)
        )
        shrinking = choose(
            asked, sound, seen, self._ask(CLUSTER, seen.view), rounds=self._rounds,
            expected={**growth.plan.expected, **nominated(unbound)}, further_checks=self._further_checks,
        )  # fmt: skip
        if shrinking is None:
            return self._still_computing("which nodes could go")
        moments = [waiting.next_at, next_due(sound, seen, low_since)]
        if shrinking.more:
            moments.append(seen.now + NEXT_LOOK)
        self._last = self._told(groups, wrong, growth, shrinking, seen, moments=[one for one in moments if one])
        return self._last

    def _still_computing(self, what: str) -> GroupsDecision:
        """Nothing is done yet, and what was said last still holds: nobody is told twice."""
        why = Reason("Computing", f"{what} is being worked out")
        if self._last is None:
            return GroupsDecision(reason=why, requeue_after=timedelta(seconds=5))
        return replace(self._last, reason=why, actions=(), requeue_after=timedelta(seconds=5))

    def _told(
        self,
        groups: Sequence[GroupSeen],
        wrong: dict[str, str],
        growth: Growth,
        shrinking: ScaleDown,
        seen: Seen,
        *,
        moments: Sequence[datetime],
    ) -> GroupsDecision:
        actions: list[Action] = [*_orphaned_taints(seen)]
        verdicts: dict[str, Verdict] = {}
        for one in groups:
            going = [candidate for candidate in shrinking.going if candidate.group.key == one.key]
            verdict = growth.verdict(one, removing=len(going), wrong=wrong.get(one.key, ""))
            verdicts[one.key] = replace(verdict, prices_per_hour=report.prices_per_hour(one, seen))
            actions += _writes(one, verdict, growth, going, seen)
        blockers = [*growth.blockers, *(stays.blocker for stays in shrinking.staying)]
        if shrinking.halted is not None:
            blockers.append(shrinking.halted)
        return GroupsDecision(
            reason=_reason(verdicts, growth, shrinking),
            actions=tuple(actions),
            blockers=tuple(blockers),
            requeue_after=_look_again(groups, blockers, moments, seen),
            problems=(
                *(
                    Problem(Ref.to(NODE_GROUPS, one.group), "InvalidSpec", f"NodeGroup {one.key}: {wrong[one.key]}")
                    for one in groups
                    if one.key in wrong
                ),
                *(problem for one in groups if (problem := other_installations.told(one, seen)) is not None),
            ),
            events=(*report.blocked(shrinking.staying), *growth.events),
            gauges=tuple(report.gauges(groups, verdicts)),
            verdicts=tuple(verdicts.values()),
            scale_up=growth.plan,
            staying=shrinking.staying,
        )


def _writes(one: GroupSeen, verdict: Verdict, growth: Growth, going: Sequence[Candidate], seen: Seen) -> list[Action]:
    """The group's status first: that it was scaled is known before anything is made or removed, also after a crash."""
    creations = growth.creations(one, seen.settings.namespace)
    actions: list[Action] = []
    created = growth.last_number(one)
    changed = report.status_of(one, verdict, seen, created=created, scaled_up=bool(creations), scaled_down=bool(going))
    if changed:
        why = Reason("Status", f"what there is to say of group {one.key}")
        event = report.scaling_up(one, verdict, growth.why(one.key)) if creations else None
        actions.append(group_status(one.group, changed, why, event))
    actions += creations
    actions += [_send_away(candidate, seen) for candidate in going]
    return actions


def _send_away(candidate: Candidate, seen: Seen) -> Patch:
    member = candidate.member
    why = Reason(CHOSEN, candidate.why)
    condition = Condition(type="Draining", status="True", reason=CHOSEN, message=candidate.why)
    fields = {
        "phase": "Terminating",
        "terminatingAt": stamp(seen.now),
        "conditions": conditions_with(member, condition, now=seen.now),
    }
    code = "Empty" if not candidate.pods else "Underutilized"
    return node_status(member, fields, why, report.scaling_down(candidate.group, candidate.name, code, candidate.why))


def _orphaned_taints(seen: Seen) -> list[Action]:
    """A taint of ours on a node that no VPSieNode stands for any more: nobody else would take it away."""
    why = Reason("TaintLeft", "a taint of ours was left on a node that is none of ours any more")
    return [
        untaint(node, why)
        for node in seen.view[NODES].by(BY_TAINT, LEAVING)
        if not seen.view[VPSIE_NODES].by(BY_NODE_NAME, node.name)
        and not any(one.name == node.labels.get(VPSIE_NODE) for one in seen.view[VPSIE_NODES])
    ]


def _reason(verdicts: dict[str, Verdict], growth: Growth, shrinking: ScaleDown) -> Reason:
    adding = {key: verdict.adding for key, verdict in verdicts.items() if verdict.adding}
    if adding:
        return Reason("ScalingUp", ", ".join(f"{count} more for group {key}" for key, count in adding.items()))
    if shrinking.going:
        return Reason("ScalingDown", ", ".join(candidate.why for candidate in shrinking.going))
    if shrinking.halted is not None:
        return Reason(shrinking.halted.code, shrinking.halted.message)
    if growth.plan.unplaced:
        pod, why = next(iter(growth.plan.unplaced.items()))
        text = f"{len(growth.plan.unplaced)} pods wait and no group helps them; {pod}: {why}"
        return Reason("NoGroupHelps", "; ".join((text, *(blocker.message for blocker in growth.blockers))))
    return Reason("Settled", "each group has the nodes that it needs")


def _look_again(
    groups: Sequence[GroupSeen], blockers: Iterable[Blocker], due: Iterable[datetime], seen: Seen
) -> timedelta | None:
    """`due`: when something changes by itself. No change of any object, nor news of a provider, need come before."""
    if not groups:
        return None
    # Whether a node is little used is looked at often enough to notice that it was not, meanwhile.
    moments = [seen.now + timedelta(seconds=30), *due]
    moments += [blocker.until for blocker in blockers if blocker.until is not None]
    return max(min(moments) - seen.now, timedelta(milliseconds=100))
