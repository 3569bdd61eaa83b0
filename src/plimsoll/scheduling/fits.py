"""Would this pod run on that node? Called by explain and by the embedded cluster's preemption."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from plimsoll.kube.types.core import Pod
from plimsoll.scheduling.class_constraints import ClassConstraints
from plimsoll.scheduling.explain import first_reason, unschedulable_everywhere
from plimsoll.scheduling.model import Constraint, Unschedulable
from plimsoll.scheduling.plan_state import PlanState
from plimsoll.scheduling.snapshot import Snapshot
from plimsoll.scheduling.static_feasibility import StaticFeasibility
from plimsoll.scheduling.volume_limits import with_attachments


def fits(snapshot: Snapshot, pod: Pod, node_name: str) -> Unschedulable | None:
    """Return None if kube-scheduler could place the pod there now, else the first constraint that fails.

    A pod that already runs is treated as one that has to move.
    """
    return reasons_by_node(snapshot, pod, (node_name,))[node_name]


def reasons_by_node(snapshot: Snapshot, pod: Pod, node_names: Iterable[str]) -> dict[str, Unschedulable | None]:
    """Return `fits` for many nodes at once: preparing the first check costs most."""
    with snapshot.trial():
        snapshot.remove(pod.uid)
        class_index, shape_index = snapshot.classes.of(pod)
        (shape_index,) = with_attachments(snapshot, np.array([class_index]), np.array([shape_index])).tolist()
        pod_class = snapshot.classes.classes[class_index]
        state = PlanState(snapshot, (pod_class,))
        constraints = ClassConstraints(state, pod_class, StaticFeasibility(state, pod_class))
        shape = snapshot.classes.shapes[shape_index]
        everywhere = unschedulable_everywhere(constraints)
        rows = {name: row for row, name in enumerate(state.names)}
        return {
            name: (everywhere or first_reason(constraints, shape, rows[name]))
            if name in snapshot.rows
            else Unschedulable(Constraint.NODE_UNKNOWN, f"there is no node {name}")
            for name in node_names
        }
