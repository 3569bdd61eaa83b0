"""The deletion order `capacity`: a scale-down leaves the spot share at its target, and zones even, at every count on the way.

It walks the replica count down to nothing. At each step the class goes that exceeds the target for the count to come (exactly
one does), from its fullest zone. What the walk fixes is a sequence of *kinds*, a class and a zone each; which pod of a kind
takes which of its places is free, and is chosen so that as few values as possible change.

It is an algorithm of `deletion_cost`, found through its entry-point group like that of any third party: it knows that package
by the shape of what it is given, and imports nothing of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from plimsoll.controllers.placement.deletion_values import Place, values_for
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spec import MIN_ON_DEMAND, SPOT_PERCENTAGE
from plimsoll.controllers.placement.target import CapacityClass, Share, target
from plimsoll.controllers.placement.workload import reading_of
from plimsoll.kube.types.core import Deployment, Node, Pod


class Holder(Protocol):
    """An active pod, and the value that it carries."""

    @property
    def pod(self) -> Pod: ...
    @property
    def whose(self) -> str: ...  # "nobody", "ours" or "foreign"
    @property
    def cost(self) -> int | None: ...
    @property
    def decided_by_cost(self) -> bool: ...


class Terms(Protocol):
    @property
    def spread_by(self) -> str: ...
    @property
    def ceiling(self) -> int: ...
    @property
    def now(self) -> datetime: ...


class Kind(NamedTuple):
    capacity_class: CapacityClass
    zone: str  # empty where the node says none: such nodes count as one zone


class Capacity:
    name = "capacity"

    def __init__(self, settings: PlacementSettings | None = None) -> None:
        self._settings = settings or PlacementSettings()

    def suits(self, workload: Deployment) -> bool:
        """Whether a workload that names no type gets this one: it is managed by placement, too."""
        return reading_of(workload, self._settings).policy is not None

    def assign(
        self, workload: Deployment, pods: Sequence[Holder], nodes: Mapping[str, Node], settings: Terms
    ) -> Mapping[str, int]:
        """Raises ValueError where the workload's annotations do not say what its split should be."""
        reading = reading_of(workload, self._settings)
        if reading.policy is None:
            faults = "; ".join(str(fault) for fault in reading.faults)
            raise ValueError(
                faults or f"it needs {SPOT_PERCENTAGE} or {MIN_ON_DEMAND} beside it, on an enabled workload"
            )
        kinds = self._kinds(pods, nodes, settings.spread_by)
        movable = [holder for holder in pods if holder.pod.uid in kinds and holder.whose != "foreign"]
        foreign = [holder for holder in pods if holder.pod.uid in kinds and holder.whose == "foreign"]
        share = reading.policy.share
        valued = [holder for holder in movable if holder.cost is not None]
        if len(valued) == len(movable) and in_order(_by_cost([*movable, *foreign], kinds), share):
            return {}
        stay = Counter(kinds[holder.pod.uid] for holder in foreign if not _leaves_first(holder, valued))
        sequence = walk(_lowest_first(movable, kinds), stay, share)
        places = values_for(sequence, [_place(holder, kinds) for holder in _youngest_first(movable)], settings.ceiling)
        # Holes are looked at once every pod has a value: a newcomer may have filled them.
        first = {h.pod.uid: places[h.pod.uid] for h in movable if h.cost is None}
        changed = {h.pod.uid: places[h.pod.uid] for h in movable if h.cost != places[h.pod.uid]}
        return dict(sorted((first or changed).items(), key=lambda entry: entry[1]))

    def _kinds(self, pods: Sequence[Holder], nodes: Mapping[str, Node], label: str) -> dict[str, Kind]:
        """Of the pods that a value decides about, by UID. Pods without a node, or not ready, go before all others."""
        kinds = {}
        for holder in pods:
            node = nodes.get(holder.pod.spec.node_name)
            if node is not None and holder.decided_by_cost:
                kinds[holder.pod.uid] = Kind(self._settings.rules.of_labels(node.labels), node.labels.get(label, ""))
        return kinds


def walk(lowest: Mapping[Kind, Sequence[int]], stay: Mapping[Kind, int], share: Share) -> list[Kind]:
    """The kinds in the order in which they should leave.

    `lowest` has, for each kind, the values that its pods carry from the lowest up: between equally full zones the pod with the
    lowest value goes, so that the order stays what it was. `stay` counts pods that leave later than all of these.
    """
    left = {kind: len(values) for kind, values in lowest.items()}
    in_zone: Counter[str] = Counter()
    of_class: Counter[CapacityClass] = Counter()
    for counted in (left, stay):
        for kind, pods in counted.items():
            in_zone[kind.zone] += pods
            of_class[kind.capacity_class] += pods
    present = Counter(left) + Counter(stay)
    order: list[Kind] = []
    while any(left.values()):
        leaving = _in_excess(of_class, share)
        able = [kind for kind, pods in left.items() if pods and kind.capacity_class is leaving]
        # Only pods that stay anyway could make the class in excess one that has none to give.
        able = able or [kind for kind, pods in left.items() if pods]
        kind = min(
            able,
            key=lambda k: (-in_zone[k.zone], -present[k], lowest[k][len(lowest[k]) - left[k]], k.zone, k[0].value),
        )
        left[kind] -= 1
        present[kind] -= 1
        in_zone[kind.zone] -= 1
        of_class[kind.capacity_class] -= 1
        order.append(kind)
    return order


def in_order(leaving: Sequence[tuple[int, Kind, bool]], share: Share) -> bool:
    """Whether pods that leave from the lowest value up follow the rule of `walk`, whatever it prefers between equals.

    Each pod is its value, its kind, and whether it is ours to judge.
    """
    in_zone = Counter(kind.zone for _, kind, _ in leaving)
    of_class = Counter(kind.capacity_class for _, kind, _ in leaving)
    present = Counter(kind for _, kind, _ in leaving)
    before: tuple[int, Kind] | None = None
    for value, kind, ours in leaving:
        if ours:
            if before is not None and before[0] == value and before[1] != kind:
                return False  # Kubernetes decides between them by criteria that change with time
            excess = _in_excess(of_class, share)
            fullest = max((in_zone[k.zone], present[k]) for k in present if present[k] and k.capacity_class is excess)
            if kind.capacity_class is not excess or (in_zone[kind.zone], present[kind]) != fullest:
                return False
        before = value, kind
        in_zone[kind.zone] -= 1
        of_class[kind.capacity_class] -= 1
        present[kind] -= 1
    return True


def _in_excess(of_class: Mapping[CapacityClass, int], share: Share) -> CapacityClass:
    """The class that has more pods than it should have once there is one fewer in all."""
    spot = of_class[CapacityClass.SPOT]
    after = target(spot + of_class[CapacityClass.ON_DEMAND] - 1, share)
    return CapacityClass.SPOT if spot > after.spot else CapacityClass.ON_DEMAND


def _by_cost(holders: Sequence[Holder], kinds: Mapping[str, Kind]) -> list[tuple[int, Kind, bool]]:
    leaving = [(holder.cost or 0, kinds[holder.pod.uid], holder.whose == "ours") for holder in holders]
    return sorted(leaving, key=lambda entry: (entry[0], entry[2], entry[1].zone, entry[1].capacity_class.value))


def _lowest_first(holders: Sequence[Holder], kinds: Mapping[str, Kind]) -> dict[Kind, list[int]]:
    """Values by kind, from the lowest up; a pod without one comes first."""
    values: dict[Kind, list[int]] = {}
    for holder in holders:
        values.setdefault(kinds[holder.pod.uid], []).append(-1 if holder.cost is None else holder.cost)
    return {kind: sorted(found) for kind, found in values.items()}


def _leaves_first(foreign: Holder, ours: Sequence[Holder]) -> bool:
    """Whether someone else's value makes this pod go before all of ours."""
    lowest = min((holder.cost for holder in ours if holder.cost is not None), default=1)
    return (foreign.cost or 0) < lowest


def _place(holder: Holder, kinds: Mapping[str, Kind]) -> Place[Kind]:
    return Place(holder.pod.uid, kinds[holder.pod.uid], holder.cost)


def _youngest_first(holders: Sequence[Holder]) -> list[Holder]:
    """As Kubernetes would have it within a kind: who has been ready for the shortest time goes first."""
    return sorted(holders, key=lambda holder: (-_ready_since(holder.pod), holder.pod.uid))


def _ready_since(pod: Pod) -> float:
    since = pod.ready_since
    return since.timestamp() if since is not None else 0.0
