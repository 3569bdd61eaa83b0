"""What a decision tells people, beside what it does."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from plimsoll.decision import Measure, Note, Problem, Reason, Ref
from plimsoll.deletion_cost.order import DeletionOrder
from plimsoll.deletion_cost.values import COST
from plimsoll.deletion_cost.workload import Seen
from plimsoll.deletion_cost.writes import Writes
from plimsoll.kube.resources import DEPLOYMENTS


def reason(seen: Seen, writes: Writes) -> Reason:
    if writes.now:
        limited = sum(1 for write in writes.now if write.limited)
        return Reason("Writing", f"{len(writes.now) - limited} values are new and {limited} are rewritten")
    if writes.blockers:
        return Reason("Waiting", "; ".join(blocker.message for blocker in writes.blockers))
    return Reason("InOrder", f'the values are what the algorithm "{seen.settings.type}" asks for')


def notes(seen: Seen, writes: Writes) -> Iterator[Note]:
    about = Ref.to(DEPLOYMENTS, seen.deployment)
    holes = [f"{w.pod.name} {w.before} → {w.cost}" for w in writes.now if w.kind == "rewritten"]
    if holes:
        message = f"rewriting {_number(holes, 'value')} so that a scale-down is even by {seen.settings.spread_by}"
        yield Note(about, "DeletionCostRewritten", f"{message}: {_some(holes)}")
    renewed = [write.pod.name for write in writes.now if write.kind == "renewed"]
    if renewed:
        terms = f'type "{seen.settings.type}", spread by {seen.settings.spread_by}'
        yield Note(about, "DeletionCostRecomputed", f"recomputing {_number(renewed, 'value')}: {terms}")


def problems(seen: Seen, covered: Collection[str]) -> Iterator[Problem]:
    """What a person should mend; `covered` are the UIDs of pods that this decision gives a value."""
    about = Ref.to(DEPLOYMENTS, seen.deployment)
    unreadable = [f'{r.pod.name} ("{r.value.unreadable}")' for r in seen.replicas if r.value.unreadable is not None]
    if unreadable:
        what = f"{COST} is no int32 on pod {_some(unreadable)}"
        cure = "Kubernetes reads it as 0; we did not write it and leave it. Write a whole number, or remove it"
        yield Problem(about, "InvalidDeletionCost", f"{what}: {cure}")

    label = seen.settings.spread_by
    unlabelled: dict[str, list[str]] = {}
    for replica in seen.replicas:
        node = seen.nodes.get(replica.pod.spec.node_name)
        passed_over = replica.whose == "nobody" and replica.decided_by_cost and replica.pod.uid not in covered
        if node is not None and passed_over and not node.labels.get(label):
            unlabelled.setdefault(node.name, []).append(replica.pod.name)
    if unlabelled:
        where = _some([f"node {node} (pod {_some(pods)})" for node, pods in sorted(unlabelled.items())])
        cure = "their pods get no value, so a scale-down takes them first. Label the nodes, or name another label"
        yield Problem(about, "NodeUnlabelled", f"there is no label {label} on {where}: {cure}")


def measures(seen: Seen, orders: Sequence[DeletionOrder]) -> Iterator[Measure]:
    labels = {"namespace": seen.deployment.namespace, "workload": seen.deployment.name}
    covered = sum(1 for order in orders for departure in order.departures if departure.whose == "ours")
    yield Measure("plimsoll_deletion_cost_covered_pods", covered, labels)
    worst = max((order.imbalance for order in orders), default=0)
    yield Measure("plimsoll_deletion_cost_imbalance", worst, labels)


def _number(things: Sequence[str], noun: str) -> str:
    return f"{len(things)} {noun}" if len(things) == 1 else f"{len(things)} {noun}s"


def _some(names: Sequence[str], most: int = 5) -> str:
    """A list that fits into an event, however long it is."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
