"""Explain a NodeGroup: current and desired size, next steps, and why nodes are kept."""

from __future__ import annotations

from datetime import datetime

from plimsoll.controllers.nodegroups.controller import CLUSTER, GroupsDecision, NodeGroupController
from plimsoll.controllers.nodegroups.types import NODE_GROUPS, NodeGroup, find_condition
from plimsoll.explain.records import KeptNode, NodeGroupExplanation, steps
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.resources import Key
from plimsoll.runtime.decision import Reason

# `explain` polls no provider; what a running operator knows of it is in the condition Error.
PROVIDER_UNKNOWN = "ProviderUnknown"


def explain_group(key: Key, view: View, now: datetime, controller: NodeGroupController) -> NodeGroupExplanation:
    """Raises LookupError if the group does not exist. Provider data is missing: only a running operator has it."""
    group = view[NODE_GROUPS].get(key.namespace, key.name)
    if group is None:
        raise LookupError(f"there is no NodeGroup {key.namespace}/{key.name}")
    decision = controller.decide(CLUSTER, view, now)
    title = f"{key.namespace}/{key.name}"
    verdicts = decision.verdicts if isinstance(decision, GroupsDecision) else ()
    verdict = next((one for one in verdicts if one.group == title), None)
    staying = decision.blocked_nodes if isinstance(decision, GroupsDecision) else ()
    return NodeGroupExplanation(
        kind="NodeGroup",
        namespace=key.namespace,
        name=key.name,
        as_of=now,
        reason=Reason(decision.reason.code, verdict.reason if verdict and verdict.reason else decision.reason.message),
        current=verdict.current if verdict is not None else None,
        desired=verdict.desired if verdict is not None else None,
        adding=verdict.adding if verdict is not None else 0,
        removing=verdict.removing if verdict is not None else 0,
        steps=tuple(step for step in steps(decision) if title in step),
        blockers=tuple(one for one in decision.blockers if one.code != PROVIDER_UNKNOWN),
        errors=tuple(text for text in (verdict.spec_problem if verdict is not None else "", _error(group)) if text),
        staying=tuple(KeptNode(one.candidate.node.name, one.blocker.message) for one in staying),
    )


def _error(group: NodeGroup) -> str:
    """What the running operator reports about the group: its provider's own words, above all."""
    condition = find_condition(group, "Error")
    return condition.message if condition is not None and condition.status == "True" else ""
