"""Algorithms are plug-ins: whatever is installed under the entry-point group `plimsoll.deletion_cost`, ours included.

    [project.entry-points."plimsoll.deletion_cost"]
    by-age = "my_package:ByAge"

The entry point's name is the type that users write; what it names is called without arguments and gives an `Algorithm`.
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
from plimsoll.controllers.deletion_cost.values import Value, Whose
from plimsoll.kube.types.core import Deployment, Node, Pod

GROUP = "plimsoll.deletion_cost"

log = structlog.get_logger()


class Replica(Struct, frozen=True):
    """An active pod of a ReplicaSet, and the value that it carries."""

    pod: Pod
    value: Value
    # Scheduled, running and ready: else Kubernetes deletes it before all others, whatever value it carries.
    decided_by_cost: bool

    @classmethod
    def of(cls, pod: Pod, value: Value) -> Self:
        return cls(pod, value, decided_by_cost(pod))

    @property
    def whose(self) -> Whose:
        """Only a pod whose value is nobody's or ours can be given another."""
        return self.value.whose

    @property
    def cost(self) -> int | None:
        """None where there is no value, or one of ours that was made under other settings."""
        return self.value.cost


class AssignSettings(Struct, frozen=True):
    spread_by: str  # the node label whose values are to be kept in balance
    ceiling: int  # no value above this one
    now: datetime


class Algorithm(Protocol):
    """Says which value each pod should carry. It must be pure: the same arguments, the same answer."""

    @property
    def name(self) -> str: ...

    def assign(
        self, workload: Deployment, pods: Sequence[Replica], nodes: Mapping[str, Node], settings: AssignSettings
    ) -> Mapping[str, int]:
        """Values by pod UID for the pods of one ReplicaSet; those that matter most first. A pod left out is left as it is.

        `nodes` has the nodes of these pods by name, as far as they exist. A new value for a pod that has one of ours is a
        rewrite: it may be put off and is limited in pace, so ask for as few as possible, and for none where nothing changed.
        """
        ...


@runtime_checkable
class Choosy(Protocol):
    """An algorithm that is the better default for some workloads."""

    def suits(self, workload: Deployment) -> bool:
        """Whether a workload that names no type gets this one."""
        ...


class Algorithms(Struct, frozen=True):
    """The algorithms that can be used, and why others cannot."""

    usable: Mapping[str, Algorithm] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.usable))

    def default_for(self, workload: Deployment) -> str:
        """The type of a workload that names none."""
        for name, algorithm in sorted(self.usable.items()):
            try:
                if isinstance(algorithm, Choosy) and algorithm.suits(workload):
                    return name
            except Exception:
                log.exception("a deletion-cost algorithm cannot say whom it suits", type=name, workload=workload.name)
        return DEFAULT_TYPE


def discover(wanted: Collection[str] = ()) -> Algorithms:
    """Load what is installed; `wanted` limits it to some, empty means all.

    What fails to load is logged, and named to whoever asks for it; it stops nobody else.
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
            failures[name] = f"nothing is installed under this name in the entry-point group {GROUP}"
    for name, why in failures.items():
        log.error("a deletion-cost algorithm cannot be used", type=name, why=why)
    return Algorithms(usable, failures)


def _load(entry: EntryPoint) -> Algorithm:
    algorithm: Algorithm = entry.load()()
    if not callable(getattr(algorithm, "assign", None)):
        raise TypeError(f"{type(algorithm).__name__} has no method assign(workload, pods, nodes, settings)")
    if algorithm.name != entry.name:
        raise ValueError(f'its name is "{algorithm.name}", its entry point\'s "{entry.name}"')
    return algorithm
