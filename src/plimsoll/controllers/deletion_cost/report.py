"""What a decision tells people, beside what it does."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from plimsoll.controllers.deletion_cost.order import DeletionOrder
from plimsoll.controllers.deletion_cost.spec import SPREAD_BY
from plimsoll.controllers.deletion_cost.values import COST
from plimsoll.controllers.deletion_cost.workload import Seen
from plimsoll.controllers.deletion_cost.writes import Writes
from plimsoll.kube.types.core import Deployment, KubeObject
from plimsoll.kube.types.resources import DEPLOYMENTS, PODS, Resource
from plimsoll.runtime.decision import Event, Gauge, Problem, Reason, Ref

# Beyond this many of a kind, the rest is told once these are mended: nobody reads three hundred events.
MOST_PROBLEMS = 10


def about(deployment: Deployment) -> Ref:
    return _lasting(DEPLOYMENTS, deployment)


def _lasting(resource: Resource[Any], obj: KubeObject) -> Ref:
    """Without a version: what is said about an object stays the same while the object's status changes."""
    return Ref(resource, obj.namespace, obj.name, obj.uid)


def reason(seen: Seen, writes: Writes) -> Reason:
    if writes.now:
        limited = sum(1 for write in writes.now if write.limited)
        return Reason("Writing", f"new values: {len(writes.now) - limited}, rewritten: {limited}")
    if writes.blockers:
        return Reason("Waiting", "; ".join(blocker.message for blocker in writes.blockers))
    return Reason("InOrder", f'the values are what the algorithm "{seen.settings.type}" asks for')


def events(seen: Seen, writes: Writes) -> Iterator[Event]:
    holes = [f"{w.pod.name} {w.before} → {w.cost}" for w in writes.now if w.kind == "rewritten"]
    if holes:
        message = f"rewriting {_number(holes, 'value')} so that a scale-down is even by {seen.settings.spread_by}"
        yield Event(about(seen.deployment), "DeletionCostRewritten", f"{message}: {_some(holes)}")
    renewed = [write.pod.name for write in writes.now if write.kind == "renewed"]
    if renewed:
        terms = f'type "{seen.settings.type}", spread by {seen.settings.spread_by}'
        yield Event(
            about(seen.deployment), "DeletionCostRecomputed", f"recomputing {_number(renewed, 'value')}: {terms}"
        )


def problems(seen: Seen, covered: Collection[str]) -> Iterator[Problem]:
    """What a person should mend; `covered` are the UIDs of pods that this decision gives a value.

    One for each thing to mend, so that each is told once, whatever else comes and goes.
    """
    unreadable = [replica for replica in seen.replicas if replica.value.unreadable is not None]
    for replica in unreadable[:MOST_PROBLEMS]:
        pod = replica.pod
        what = f'pod {pod.namespace}/{pod.name}: {COST} is "{replica.value.unreadable}", which is no int32'
        cure = "Kubernetes reads it as 0; we did not write it and leave it. Write a whole number, or remove it"
        yield Problem(_lasting(PODS, pod), "InvalidDeletionCost", f"{what}. {cure}")

    label = seen.settings.spread_by
    unlabelled = {
        node.name
        for replica in seen.replicas
        if replica.whose == "nobody" and replica.pod.uid not in covered and replica.decided_by_cost
        if (node := seen.nodes.get(replica.pod.spec.node_name)) is not None and not node.labels.get(label)
    }
    for name in sorted(unlabelled)[:MOST_PROBLEMS]:
        cure = (
            f"pods there get no value, so a scale-down takes them first. Label the node, or name another in {SPREAD_BY}"
        )
        yield Problem(about(seen.deployment), "NodeUnlabelled", f"node {name} has no label {label}: {cure}")


def gauges(seen: Seen, orders: Sequence[DeletionOrder]) -> Iterator[Gauge]:
    labels = {"namespace": seen.deployment.namespace, "workload": seen.deployment.name}
    covered = sum(1 for order in orders for departure in order.departures if departure.whose == "ours")
    yield Gauge("plimsoll_deletion_cost_covered_pods", covered, labels)
    worst = max((order.imbalance for order in orders), default=0)
    yield Gauge("plimsoll_deletion_cost_imbalance", worst, labels)


def _number(things: Sequence[str], noun: str) -> str:
    return f"{len(things)} {noun}" if len(things) == 1 else f"{len(things)} {noun}s"


def _some(names: Sequence[str], most: int = 5) -> str:
    """A list that fits into an event, however long it is."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
