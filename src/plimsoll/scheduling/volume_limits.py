"""CSI attach limits: how many volumes of a driver a node can attach (CSINode `allocatable.count`).

A limit is modelled as a resource per driver: a node offers its count minus the volumes that are attached or used there, and a
pod requests one per volume. So every part of the engine that compares amounts respects it. Called by `pack`, `fits` and
`removal` before they build a `PlanState`, and by `PlanState` for the amounts of nodes and offerings.

Differences from kube-scheduler, all on the safe side: two pods of one plan that share a volume count it twice, and a volume
that a pod shares with another pod on the node counts again. In-tree volumes that are migrated to CSI are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from plimsoll.kube.types.meta import Labels
from plimsoll.scheduling.pod_equivalence import PodClass, PodClasses
from plimsoll.scheduling.snapshot import Snapshot

PREFIX = "attachable-volumes-csi-"
UNLIMITED = 2**40
INSTANCE_TYPE = "node.kubernetes.io/instance-type"

_ATTACHED = "kubernetes.io/csi/"  # prefix of CSI volumes in a node's status.volumesAttached: driver^handle


def driver_of(resource: str) -> str:
    """Return the driver of an attach-limit resource, or "" for any other resource."""
    return resource.removeprefix(PREFIX) if resource.startswith(PREFIX) else ""


def with_attachments(snapshot: Snapshot, class_of: NDArray[np.intp], shape_of: NDArray[np.intp]) -> NDArray[np.intp]:
    """By pod (its class and shape): the index of its shape including the volumes that it needs attached.

    Only drivers with a limit on some node count. The result is `shape_of` itself if no pod uses such a driver.
    """
    limited = _limited_drivers(snapshot)
    if not limited or not len(class_of):
        return shape_of
    classes = snapshot.classes
    with_claims = np.array([bool(c.claims) for c in classes.classes], np.bool_)
    pods = np.flatnonzero(with_claims[class_of])
    if not len(pods):
        return shape_of
    found = shape_of.copy()
    known: dict[tuple[int, int], int] = {}
    for pod in pods.tolist():
        key = (int(class_of[pod]), int(shape_of[pod]))
        if key not in known:
            known[key] = _extended(snapshot, classes.classes[key[0]], key[1], limited)
        found[pod] = known[key]
    return found


def _extended(snapshot: Snapshot, pod_class: PodClass, shape_index: int, limited: set[str]) -> int:
    classes = snapshot.classes
    counts: dict[str, int] = {}
    for driver, _ in volumes_of(snapshot, pod_class):
        if driver in limited:
            counts[driver] = counts.get(driver, 0) + 1
    if not counts:
        return shape_index
    more = [(classes.resource(PREFIX + driver), count) for driver, count in counts.items()]
    return classes.shape(tuple(sorted((*classes.shapes[shape_index], *more))))


def volumes_of(snapshot: Snapshot, pod_class: PodClass) -> set[tuple[str, str]]:
    """Return driver and volume of each CSI volume of a class; an unbound claim stands for the volume it will get."""
    found: set[tuple[str, str]] = set()
    for name, _ in pod_class.claims:
        claim = snapshot.claims.get((pod_class.namespace, name)) if snapshot.claims is not None else None
        if claim is None:
            continue
        if claim.volume:
            volume = snapshot.volumes.get(claim.volume) if snapshot.volumes is not None else None
            if volume is not None and volume.driver:
                found.add((volume.driver, volume.handle or claim.volume))
        elif snapshot.storage_classes is not None and (of := snapshot.storage_classes.get(claim.storage_class)):
            found.add((of.provisioner, f"{pod_class.namespace}/{name}"))
    return found


def free_attachments(snapshot: Snapshot, driver: str, rows: Sequence[int]) -> list[int]:
    """By given row of the snapshot: how many more volumes of the driver the node can attach."""
    used: dict[int, set[str]] = {}
    classes = snapshot.classes.classes
    volumes: dict[int, list[str]] = {}
    for index in np.flatnonzero(np.bincount(snapshot.pod_classes[snapshot.pod_rows >= 0])).tolist():
        if classes[index].claims:
            mine = [volume for of, volume in volumes_of(snapshot, classes[index]) if of == driver]
            if mine:
                volumes[index] = mine
    for index, mine in volumes.items():
        for slot in np.flatnonzero((snapshot.pod_classes == index) & (snapshot.pod_rows >= 0)).tolist():
            used.setdefault(int(snapshot.pod_rows[slot]), set()).update(mine)
    found = []
    for row in rows:
        facts = snapshot.nodes[row]
        limit = (snapshot.csi_limits or {}).get(facts.name, {}).get(driver) if facts is not None else None
        if facts is None or limit is None:
            found.append(UNLIMITED)
            continue
        attached = _attached(snapshot.attached.get(facts.name, ()), driver)
        found.append(max(0, limit - len(used.get(row, set()) | attached)))
    return found


def _attached(names: Iterable[str], driver: str) -> set[str]:
    start = f"{_ATTACHED}{driver}^"
    return {name.removeprefix(start) for name in names if name.startswith(start)}


def learned_limits(snapshot: Snapshot, driver: str, labels: Sequence[Labels]) -> list[int]:
    """By node to come (its labels): the lowest limit of existing nodes of its instance type, else of any node.

    Never unlimited where some node has a limit: a driver that limits one node limits the next.
    """
    by_type: dict[str, int] = {}
    lowest = UNLIMITED
    for name, limits in (snapshot.csi_limits or {}).items():
        limit = limits.get(driver)
        row = snapshot.rows.get(name)
        facts = snapshot.nodes[row] if row is not None else None
        if limit is None or facts is None:
            continue
        lowest = min(lowest, limit)
        if of := facts.labels.get(INSTANCE_TYPE):
            by_type[of] = min(by_type.get(of, limit), limit)
    return [by_type.get(one.get(INSTANCE_TYPE, ""), lowest) for one in labels]


def attach_resources(classes: PodClasses) -> Mapping[int, str]:
    """Return the attach-limit resources met so far: index → driver."""
    return {index: driver for index, name in enumerate(classes.resources) if (driver := driver_of(name))}


def _limited_drivers(snapshot: Snapshot) -> set[str]:
    return {driver for limits in (snapshot.csi_limits or {}).values() for driver in limits}
