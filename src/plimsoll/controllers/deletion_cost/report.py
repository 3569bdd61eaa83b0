"""Reason, events, problems and metrics of a deletion-cost decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from plimsoll.controllers.deletion_cost.order import DeletionOrder
from plimsoll.controllers.deletion_cost.spec import SPREAD_BY
from plimsoll.controllers.deletion_cost.values import COST
from plimsoll.controllers.deletion_cost.workload import DeploymentState
from plimsoll.controllers.deletion_cost.writes import WritePlan
from plimsoll.kube.types.apps import Deployment
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import DEPLOYMENTS, PODS, Resource
from plimsoll.runtime.decision import Event, Gauge, Problem, Reason, Ref
from plimsoll.runtime.phrases import counted, nth

# At most this many problems of a kind are reported at once; the rest follows when these are fixed.
MOST_PROBLEMS = 10


def about(deployment: Deployment) -> Ref:
    return _unversioned_ref(DEPLOYMENTS, deployment)


def _unversioned_ref(resource: Resource[Any], obj: KubeObject) -> Ref:
    """Without a resourceVersion: the same problem stays the same while the object's status changes."""
    return Ref(resource, obj.namespace, obj.name, obj.uid)


def reason(state: DeploymentState, writes: WritePlan) -> Reason:
    if writes.now:
        limited = sum(1 for write in writes.now if write.limited)
        return Reason("Writing", f"new values: {len(writes.now) - limited}, rewritten: {limited}")
    if writes.blockers:
        return Reason("Waiting", "; ".join(blocker.message for blocker in writes.blockers))
    return Reason("InOrder", f'every value is as the algorithm "{state.settings.type}" computes it')


def events(
    state: DeploymentState, writes: WritePlan, before: Sequence[DeletionOrder], after: Sequence[DeletionOrder]
) -> Iterator[Event]:
    """before, after: the deletion orders without and with the writes of this decision."""
    rewritten = {write.pod.name for write in writes.now if write.kind == "rewritten"}
    if rewritten:
        changes = [change for old, new in zip(before, after, strict=True) for change in _changes(old, new, rewritten)]
        message = (
            f"{counted(len(rewritten), 'value')} rewritten so that a scale-down is even by {state.settings.spread_by}"
        )
        yield Event(about(state.deployment), "DeletionCostRewritten", f"{message}: {_some(changes)}")
    renewed = [write.pod.name for write in writes.now if write.kind == "renewed"]
    if renewed:
        terms = f'type "{state.settings.type}", spread by {state.settings.spread_by}'
        yield Event(
            about(state.deployment), "DeletionCostRecomputed", f"recomputing {counted(len(renewed), 'value')}: {terms}"
        )


def problems(state: DeploymentState, covered: Collection[str]) -> Iterator[Problem]:
    """Problems that a person must fix; `covered` are the UIDs of pods that this decision gives a value.

    One problem per pod or node, so that each is reported once.
    """
    unreadable = [replica for replica in state.replicas if replica.value.unreadable is not None]
    for replica in unreadable[:MOST_PROBLEMS]:
        pod = replica.pod
        what = f'pod {pod.namespace}/{pod.name}: {COST} is "{replica.value.unreadable}", which is not an int32'
        cure = "Kubernetes treats it as 0, and it is not ours to change. Write an integer or remove it"
        yield Problem(_unversioned_ref(PODS, pod), "InvalidDeletionCost", f"{what}. {cure}")

    label = state.settings.spread_by
    unlabelled = {
        node.name
        for replica in state.replicas
        if replica.value_owner == "nobody" and replica.pod.uid not in covered and replica.decided_by_cost
        if (node := state.nodes.get(replica.pod.spec.node_name)) is not None and not node.labels.get(label)
    }
    for name in sorted(unlabelled)[:MOST_PROBLEMS]:
        cure = f"pods there get no value, so a scale-down deletes them first. Label the node, or name another label in {SPREAD_BY}"
        yield Problem(about(state.deployment), "NodeUnlabelled", f"node {name} has no label {label}: {cure}")


def gauges(state: DeploymentState, orders: Sequence[DeletionOrder]) -> Iterator[Gauge]:
    labels = {"namespace": state.deployment.namespace, "workload": state.deployment.name}
    covered = sum(1 for order in orders for departure in order.departures if departure.value_owner == "ours")
    yield Gauge("plimsoll_deletion_cost_covered_pods", covered, labels)
    worst = max((order.imbalance for order in orders), default=0)
    yield Gauge("plimsoll_deletion_cost_imbalance", worst, labels)


def _changes(before: DeletionOrder, after: DeletionOrder, rewritten: Collection[str]) -> Iterator[str]:
    """How each rewritten pod moves within the deletion order, and how full its zone is."""
    old = {entry.pod: number for number, entry in enumerate(before.departures, 1)}
    in_zone = Counter(entry.zone for entry in after.departures)
    for number, entry in enumerate(after.departures, 1):
        if entry.pod not in rewritten:
            continue
        others = max((pods for zone, pods in in_zone.items() if zone != entry.zone), default=0)
        more = in_zone[entry.zone] - others
        zone = f"zone {entry.zone}" if entry.zone else "its zone"
        if more > 0:
            why = f"{zone} has {counted(more, 'replica')} more than any other"
        else:
            why = f"{zone} has {in_zone[entry.zone]} of {counted(len(after.departures), 'replica')}"
        if old[entry.pod] == number:
            yield f"{entry.pod} stays {nth(number)} in the deletion order: {why}"
        else:
            yield f"{entry.pod} moved from {nth(old[entry.pod])} to {nth(number)} in the deletion order: {why}"


def _some(names: Sequence[str], most: int = 5) -> str:
    """A list that fits into an event."""
    shown = "; ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
