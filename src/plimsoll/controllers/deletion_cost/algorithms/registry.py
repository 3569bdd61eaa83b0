"""Algorithms are plug-ins of the entry-point group `plimsoll.deletion_cost`, the built-in ones included.

    [project.entry-points."plimsoll.deletion_cost"]
    by-age = "my_package:ByAge"

The name of the entry point is the type that users write. The object is called without arguments and returns an `Algorithm`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, Self, runtime_checkable

import structlog
from msgspec import Struct, field

from plimsoll.controllers.deletion_cost.replicaset_ranking import decided_by_cost
from plimsoll.controllers.deletion_cost.spec import DEFAULT_TYPE
from plimsoll.controllers.deletion_cost.values import DeletionValue, ValueOwner
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.apps import Deployment
from plimsoll.kube.types.core import Node, Pod

GROUP = "plimsoll.deletion_cost"

log = structlog.get_logger()


class ValuedPod(Struct, frozen=True):
    """An active pod of a ReplicaSet and its deletion cost."""

    pod: Pod
    value: DeletionValue
    # Scheduled, running and ready; else Kubernetes deletes it first, whatever its value.
    decided_by_cost: bool

    @classmethod
    def of(cls, pod: Pod, value: DeletionValue) -> Self:
        return cls(pod, value, decided_by_cost(pod))

    @property
    def value_owner(self) -> ValueOwner:
        """Who wrote the value: only "nobody" and "ours" can be given another."""
        return self.value.value_owner

    @property
    def cost(self) -> int | None:
        """None if there is no value, or one of ours that was computed for other settings."""
        return self.value.cost


class AssignSettings(Struct, frozen=True):
    spread_by: str  # the node label whose values are kept even
    ceiling: int  # no value above this one
    now: datetime


class Algorithm(Protocol):
    """Computes the deletion cost of each pod. It must be deterministic and do no I/O."""

    @property
    def name(self) -> str: ...

    def assign(
        self, workload: Deployment, pods: Sequence[ValuedPod], nodes: Mapping[str, Node], settings: AssignSettings
    ) -> Mapping[str, int]:
        """Values by pod UID for the pods of one ReplicaSet, the most important first. Pods left out keep their value.

        `nodes` has the existing nodes of these pods by name. A new value for a pod that has one of ours is a rewrite: it may be
        delayed and is limited per minute, so return as few as possible, and none if nothing changed.
        """
        ...


@runtime_checkable
class PrefersWorkloads(Protocol):
    """An algorithm that is the default for some workloads."""

    def suits(self, workload: Deployment) -> bool:
        """Whether this is the type of a workload that names none."""
        ...


@runtime_checkable
class AppliesByItself(Protocol):
    """An algorithm that orders some workloads without the annotation `enabled`."""

    def applies_to(self, workload: Deployment, view: View) -> bool:
        """Whether a workload without the annotation is ordered by this algorithm. `enabled: "false"` opts out."""
        ...


class Algorithms(Struct, frozen=True):
    """The usable algorithms, and why others cannot be used."""

    usable: Mapping[str, Algorithm] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.usable))

    def default_for(self, workload: Deployment) -> str:
        """The type of a workload that names none."""
        for name, algorithm in sorted(self.usable.items()):
            try:
                if isinstance(algorithm, PrefersWorkloads) and algorithm.suits(workload):
                    return name
            except Exception:
                log.exception("deletion-cost algorithm failed in suits()", type=name, workload=workload.name)
        return DEFAULT_TYPE

    def implied_for(self, workload: Deployment, view: View) -> str | None:
        """The type that applies to a workload without the annotation `enabled`; None if there is none."""
        for name, algorithm in sorted(self.usable.items()):
            try:
                if isinstance(algorithm, AppliesByItself) and algorithm.applies_to(workload, view):
                    return name
            except Exception:
                log.exception("deletion-cost algorithm failed in applies_to()", type=name, workload=workload.name)
        return None


def discover(wanted: Collection[str] = ()) -> Algorithms:
    """Load the installed algorithms; `wanted` limits them by name, empty means all.

    One that fails to load is logged and reported on workloads that name it; the others stay usable.
    """
    usable: dict[str, Algorithm] = {}
    failures: dict[str, str] = {}
    for entry in entry_points(group=GROUP):
        if wanted and entry.name not in wanted:
            continue
        try:
            usable[entry.name] = _load(entry)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plug-in may raise anything, even this
            failures[entry.name] = f"{entry.value} failed to load: {error!r}"
    for name in wanted:
        if name not in usable and name not in failures:
            failures[name] = f"the entry-point group {GROUP} has no such name"
    for name, why in failures.items():
        log.error("deletion-cost algorithm cannot be used", type=name, why=why)
    return Algorithms(usable, failures)


def _load(entry: EntryPoint) -> Algorithm:
    algorithm: Algorithm = entry.load()()
    if not callable(getattr(algorithm, "assign", None)):
        raise TypeError(f"{type(algorithm).__name__} has no method assign(workload, pods, nodes, settings)")
    if algorithm.name != entry.name:
        raise ValueError(f'its name is "{algorithm.name}", its entry point\'s "{entry.name}"')
    return algorithm
