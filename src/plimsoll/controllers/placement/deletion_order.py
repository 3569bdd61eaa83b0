"""The deletion order `capacity`: a scale-down keeps the spot share at its target, and zones even, at every count.

It walks the replica count down to zero. At each step one pod of the class that exceeds the target for the smaller count is
deleted (exactly one class does), from its fullest zone. The walk yields a sequence of class and zone; which pod of a class and
zone takes which position is free, and is chosen so that as few values as possible change.

This is an algorithm of the deletion-cost controller, found through its entry-point group like that of any third party. It knows
that package by the protocols below and imports nothing of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from plimsoll.controllers.placement.deletion_values import OrderedPod, values_for
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spec import MIN_ON_DEMAND, SPOT_PERCENTAGE
from plimsoll.controllers.placement.target import CapacityClass, Share, target
from plimsoll.controllers.placement.workload import (
    MINIMUM_TOO_HIGH,
    Managed,
    evaluate_workload,
    namespace_exclusion,
    parse_workload,
)
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.apps import Deployment
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.resources import NAMESPACES


class PodWithValue(Protocol):
    """An active pod and its deletion cost."""

    @property
    def pod(self) -> Pod: ...
    @property
    def value_owner(self) -> str: ...  # "nobody", "ours" or "foreign"
    @property
    def cost(self) -> int | None: ...
    @property
    def decided_by_cost(self) -> bool: ...


class OrderSettings(Protocol):
    @property
    def spread_by(self) -> str: ...
    @property
    def ceiling(self) -> int: ...
    @property
    def now(self) -> datetime: ...


class ClassAndZone(NamedTuple):
    capacity_class: CapacityClass
    zone: str  # empty if the node has no zone label: such nodes count as one zone


class Capacity:
    name = "capacity"

    def __init__(self, settings: PlacementSettings | None = None, *, placement_runs: bool = False) -> None:
        """placement_runs: the placement controller runs too, so that every workload that it manages gets this order."""
        self._settings = settings or PlacementSettings()
        self._placement_runs = placement_runs

    def suits(self, workload: Deployment) -> bool:
        """Whether this is the default type for a workload: placement manages it too."""
        return parse_workload(workload, self._settings).policy is not None

    def applies_to(self, workload: Deployment, view: View) -> bool:
        """Whether a workload gets this order without opting in to deletion costs: its minimum must hold in scale-downs too.

        A minimum above the replica count counts as valid: what a scale-down leaves is then on-demand.
        """
        settings = self._settings
        if not self._placement_runs or not parse_workload(workload, settings).policy:
            return False
        if settings.namespace_labels and NAMESPACES not in view:
            return False  # the scope of placement is unknown
        verdict = namespace_exclusion(workload.namespace, view, settings) or evaluate_workload(workload, settings)
        return isinstance(verdict, Managed) or verdict.reason.code == MINIMUM_TOO_HIGH

    def assign(
        self, workload: Deployment, pods: Sequence[PodWithValue], nodes: Mapping[str, Node], settings: OrderSettings
    ) -> Mapping[str, int]:
        """Raises ValueError if the workload has no valid placement annotations."""
        parsed = parse_workload(workload, self._settings)
        if parsed.policy is None:
            problems = "; ".join(str(problem) for problem in parsed.problems)
            raise ValueError(
                problems or f"the workload must be enabled for placement and have {SPOT_PERCENTAGE} or {MIN_ON_DEMAND}"
            )
        groups = self._groups(pods, nodes, settings.spread_by)
        movable = [one for one in pods if one.pod.uid in groups and one.value_owner != "foreign"]
        foreign = [one for one in pods if one.pod.uid in groups and one.value_owner == "foreign"]
        share = parsed.policy.share
        valued = [one for one in movable if one.cost is not None]
        if len(valued) == len(movable) and in_order(_by_cost([*movable, *foreign], groups), share):
            return {}
        stay = Counter(groups[one.pod.uid] for one in foreign if not _leaves_first(one, valued))
        sequence = walk(_lowest_first(movable, groups), stay, share)
        values = values_for(sequence, [_ordered(one, groups) for one in _youngest_first(movable)], settings.ceiling)
        # Rewrites wait until every pod has a value: a new pod may have closed the gap.
        first = {h.pod.uid: values[h.pod.uid] for h in movable if h.cost is None}
        changed = {h.pod.uid: values[h.pod.uid] for h in movable if h.cost != values[h.pod.uid]}
        return dict(sorted((first or changed).items(), key=lambda entry: entry[1]))

    def _groups(self, pods: Sequence[PodWithValue], nodes: Mapping[str, Node], label: str) -> dict[str, ClassAndZone]:
        """Class and zone by UID, for the pods whose position the value decides. Pending and unready pods are deleted first."""
        groups = {}
        for one in pods:
            node = nodes.get(one.pod.spec.node_name)
            if node is not None and one.decided_by_cost:
                groups[one.pod.uid] = ClassAndZone(
                    self._settings.rules.of_labels(node.labels), node.labels.get(label, "")
                )
        return groups


def walk(
    lowest: Mapping[ClassAndZone, Sequence[int]], stay: Mapping[ClassAndZone, int], share: Share
) -> list[ClassAndZone]:
    """Classes and zones in the order of deletion.

    `lowest` has the values of the pods of each class and zone, ascending: between equally full zones the pod with the lowest
    value is deleted first, so that the order stays stable. `stay` counts pods that are deleted after all of these.
    """
    left = {group: len(values) for group, values in lowest.items()}
    in_zone: Counter[str] = Counter()
    of_class: Counter[CapacityClass] = Counter()
    for counted in (left, stay):
        for group, pods in counted.items():
            in_zone[group.zone] += pods
            of_class[group.capacity_class] += pods
    present = Counter(left) + Counter(stay)
    order: list[ClassAndZone] = []
    while any(left.values()):
        excess = _in_excess(of_class, share)
        able = [group for group, pods in left.items() if pods and group.capacity_class is excess]
        # The class in excess may consist only of pods that stay.
        able = able or [group for group, pods in left.items() if pods]
        group = min(
            able,
            key=lambda k: (-in_zone[k.zone], -present[k], lowest[k][len(lowest[k]) - left[k]], k.zone, k[0].value),
        )
        left[group] -= 1
        present[group] -= 1
        in_zone[group.zone] -= 1
        of_class[group.capacity_class] -= 1
        order.append(group)
    return order


def in_order(deleted: Sequence[tuple[int, ClassAndZone, bool]], share: Share) -> bool:
    """Whether a deletion in ascending order of values follows the rule of `walk`, whatever it prefers between equals.

    Each entry is a pod's value, its class and zone, and whether the value is ours.
    """
    in_zone = Counter(group.zone for _, group, _ in deleted)
    of_class = Counter(group.capacity_class for _, group, _ in deleted)
    present = Counter(group for _, group, _ in deleted)
    before: tuple[int, ClassAndZone] | None = None
    for value, group, ours in deleted:
        if ours:
            if before is not None and before[0] == value and before[1] != group:
                return False  # Kubernetes breaks the tie by criteria that change with time
            excess = _in_excess(of_class, share)
            fullest = max((in_zone[k.zone], present[k]) for k in present if present[k] and k.capacity_class is excess)
            if group.capacity_class is not excess or (in_zone[group.zone], present[group]) != fullest:
                return False
        before = value, group
        in_zone[group.zone] -= 1
        of_class[group.capacity_class] -= 1
        present[group] -= 1
    return True


def _in_excess(of_class: Mapping[CapacityClass, int], share: Share) -> CapacityClass:
    """The class with more pods than its target for one replica fewer."""
    spot = of_class[CapacityClass.SPOT]
    after = target(spot + of_class[CapacityClass.ON_DEMAND] - 1, share)
    return CapacityClass.SPOT if spot > after.spot else CapacityClass.ON_DEMAND


def _by_cost(
    pods_with_value: Sequence[PodWithValue], groups: Mapping[str, ClassAndZone]
) -> list[tuple[int, ClassAndZone, bool]]:
    entries = [(one.cost or 0, groups[one.pod.uid], one.value_owner == "ours") for one in pods_with_value]
    return sorted(entries, key=lambda entry: (entry[0], entry[2], entry[1].zone, entry[1].capacity_class.value))


def _lowest_first(
    pods_with_value: Sequence[PodWithValue], groups: Mapping[str, ClassAndZone]
) -> dict[ClassAndZone, list[int]]:
    """Values by class and zone, ascending; a pod without a value comes first."""
    values: dict[ClassAndZone, list[int]] = {}
    for one in pods_with_value:
        values.setdefault(groups[one.pod.uid], []).append(-1 if one.cost is None else one.cost)
    return {group: sorted(found) for group, found in values.items()}


def _leaves_first(foreign: PodWithValue, ours: Sequence[PodWithValue]) -> bool:
    """Whether a foreign value makes this pod be deleted before all of ours."""
    lowest = min((one.cost for one in ours if one.cost is not None), default=1)
    return (foreign.cost or 0) < lowest


def _ordered(one: PodWithValue, groups: Mapping[str, ClassAndZone]) -> OrderedPod[ClassAndZone]:
    return OrderedPod(one.pod.uid, groups[one.pod.uid], one.cost)


def _youngest_first(pods_with_value: Sequence[PodWithValue]) -> list[PodWithValue]:
    """The order of Kubernetes between equals: the most recently ready pod first."""
    return sorted(pods_with_value, key=lambda one: (-_ready_since(one.pod), one.pod.uid))


def _ready_since(pod: Pod) -> float:
    since = pod.ready_since
    return since.timestamp() if since is not None else 0.0
