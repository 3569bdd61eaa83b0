"""Node group records: managed groups with their decision, and groups of other autoscalers, which are only counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from plimsoll.controllers.nodegroups.controller import GroupsDecision
from plimsoll.controllers.nodegroups.types import BY_GROUP, NODE_GROUPS, VPSIE_NODES, NodeGroup, VPSieNode
from plimsoll.controllers.placement.capacity_class import ClassRules
from plimsoll.dashboard.nodes import labelled_group
from plimsoll.dashboard.records import BlockerRecord, GroupRecord
from plimsoll.dashboard.workloads import blocker_record
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Node
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import NODES

_MOST_BLOCKERS = 20  # nobody reads a hundred blockers of one group


class GroupCount(Struct):
    current: int = 0
    ready: int = 0
    capacity_class: str = ""


class NodeCounts:
    """Counts nodes by the group in their labels, incrementally."""

    def __init__(self, rules: ClassRules) -> None:
        self._rules = rules
        self._counts: dict[str, GroupCount] = {}

    def changed(self, before: KubeObject | None, after: KubeObject | None) -> None:
        for node, step in ((before, -1), (after, 1)):
            if not isinstance(node, Node):
                continue
            name = labelled_group(node.labels)
            if name:
                count = self._counts.setdefault(
                    name, GroupCount(capacity_class=self._rules.of_labels(node.labels).value)
                )
                count.current += step
                count.ready += step * node.ready
                if not count.current:
                    del self._counts[name]

    def of(self, name: str) -> GroupCount | None:
        return self._counts.get(name)

    def names(self) -> list[str]:
        return list(self._counts)


def managed_groups(view: View) -> dict[str, NodeGroup]:
    return {f"{one.namespace}/{one.name}": one for one in view[NODE_GROUPS]} if NODE_GROUPS in view else {}


def group_record(
    key: str, view: View, rules: ClassRules, node_counts: NodeCounts, decision: GroupsDecision | None
) -> GroupRecord | None:
    namespace, slash, name = key.partition("/")
    group = view[NODE_GROUPS].get(namespace, name) if slash and NODE_GROUPS in view else None
    if group is not None:
        return _ours(key, group, view, rules, decision)
    count = node_counts.of(key)
    if count is None or any(one.name == key for one in managed_groups(view).values()):
        return None
    return GroupRecord(
        min=None, max=None, desired=None, current=count.current, ready=count.ready, capacity_class=count.capacity_class,
        price_per_hour=None, offerings=[], blockers=[],
        why="another autoscaler or nobody scales this group",
    )  # fmt: skip


def _ours(key: str, group: NodeGroup, view: View, rules: ClassRules, decision: GroupsDecision | None) -> GroupRecord:
    members = [one for one in view[VPSIE_NODES].by(BY_GROUP, key) if not one.being_removed]
    nodes = [view[NODES].get("", one.node_name) for one in members]
    verdict = next((one for one in decision.verdicts if one.group == key), None) if decision is not None else None
    return GroupRecord(
        min=group.spec.min_nodes,
        max=group.spec.max_nodes,
        desired=verdict.desired if verdict is not None else group.status.desired_nodes,
        current=len(members),
        ready=sum(1 for node in nodes if node is not None and node.ready),
        capacity_class=rules.of_labels(group.spec.labels).value,
        price_per_hour=_price(members, verdict.prices_per_hour) if verdict is not None else None,
        offerings=list(group.spec.offering_ids),
        why=_why(key, decision),
        blockers=_blockers(key, decision),
    )


def _price(members: Sequence[VPSieNode], prices: Mapping[str, float]) -> float | None:
    """Price per hour of all members, or None if any price is unknown: a partial sum would be too low."""
    if not prices or any(one.spec.instance_type not in prices for one in members):
        return None
    return round(sum(prices[one.spec.instance_type] for one in members), 6)


def _why(key: str, decision: GroupsDecision | None) -> str:
    if decision is None:
        return "no decision yet"
    verdict = next((one for one in decision.verdicts if one.group == key), None)
    if verdict is None:
        return decision.reason.message
    if verdict.spec_problem:
        return verdict.spec_problem
    # The decision covers all groups; this text concerns one.
    if verdict.adding:
        nodes = "1 node is being" if verdict.adding == 1 else f"{verdict.adding} nodes are being"
        why = (
            f"pending pods need {'it' if verdict.adding == 1 else 'them'}"
            if verdict.reason == "PendingPods"
            else "the group is below its desired size"
        )
        return f"{nodes} added: {why}"
    return "the group has the nodes it needs" if decision.reason.code == "Settled" else decision.reason.message


def _blockers(key: str, decision: GroupsDecision | None) -> list[BlockerRecord]:
    """What blocks scale-down and scale-up of a group. Scale-up blockers name the group only in their message."""
    if decision is None:
        return []
    staying = [one.blocker for one in decision.blocked_nodes if one.candidate.group.key == key]
    kept = {id(one.blocker) for one in decision.blocked_nodes}
    others = [one for one in decision.blockers if id(one) not in kept]
    growing = [one for one in others if any(f"group {key}{end}" in one.message for end in (" ", ":"))]
    halted = [one for one in others if "group " not in one.message]
    return [blocker_record(one) for one in (*growing, *halted, *staying)][:_MOST_BLOCKERS]
