"""DaemonSet pods of nodes that do not exist yet, and the resources they take. Used by `plan_state`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from plimsoll.kube.types.core import Toleration
from plimsoll.scheduling.model import HOSTNAME, ComingNode, Template
from plimsoll.scheduling.node_equivalence import NodeClasses, NodeTraits, static_keys
from plimsoll.scheduling.offerings import Lane, Offerings
from plimsoll.scheduling.pod_counters import PodCounters
from plimsoll.scheduling.pod_equivalence import PodClass, PodClasses
from plimsoll.scheduling.rules import ports_conflict
from plimsoll.scheduling.topology import Mask, TopologyCounter
from plimsoll.scheduling.volumes import VolumeRules

Ints = NDArray[np.int64]

# The tolerations that the DaemonSet controller adds to its pods.
_DAEMON_TOLERATIONS = tuple(
    Toleration(key=f"node.kubernetes.io/{name}", operator="Exists", effect=effect)
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
        ("network-unavailable", "NoSchedule"),
    )
)


class DaemonOverhead:
    """The DaemonSet pods of templates and coming nodes."""

    def __init__(self, classes: PodClasses, templates: Sequence[Template], coming: Sequence[ComingNode]) -> None:
        of = classes.of
        self._classes = classes
        self.coming = coming
        self._on_templates = [[of(pod) for pod in template.daemons] for template in templates]
        self._on_coming = [[of(pod) for pod in node.daemons] for node in coming]
        self._on_offering: list[tuple[int, ...]] = []
        self.on_coming: list[tuple[int, int]] = []
        self.class_indexes = [index for pods in (*self._on_templates, *self._on_coming) for index, _ in pods]
        self.pod_counters: PodCounters
        self.offerings: Offerings

    def take_off(self, offerings: Offerings) -> None:
        """Subtract from each offering what the DaemonSet pods that it admits request."""
        self.offerings = offerings
        lacking = len(self._classes.resources) - offerings.caps.shape[0]
        if lacking > 0:
            offerings.caps = np.concatenate((offerings.caps, np.zeros((lacking, len(offerings.sold)), np.int64)))
        if not any(self._on_templates):
            self._on_offering = [()] * len(offerings.sold)
            return
        admitted_by: dict[int, list[Mask]] = {}
        for template, daemons in enumerate(self._on_templates):
            columns = [i for i, of in enumerate(offerings.template_of) if of == template]
            node_traits = [offerings.node_traits[i] for i in columns]
            admitted_by[template] = [self._admitted(index, node_traits) for index, _ in daemons]
            for (_, shape), admitted in zip(daemons, admitted_by[template], strict=True):
                for resource, amount in self._classes.shapes[shape]:
                    offerings.caps[resource, columns] -= amount * admitted
        seen: dict[int, int] = {}
        for template in offerings.template_of:
            position = seen[template] = seen.get(template, -1) + 1
            daemons = self._on_templates[template]
            self._on_offering.append(
                tuple(d[0] for d, mask in zip(daemons, admitted_by[template], strict=True) if mask[position])
            )

    def _admitted(self, class_index: int, node_traits: list[NodeTraits]) -> Mask:
        pod_class = self._classes.classes[class_index]
        node_classes = NodeClasses(node_traits, static_keys(pod_class, VolumeRules()))
        return node_classes.selected(pod_class) & node_classes.tolerated((*pod_class.tolerations, *_DAEMON_TOLERATIONS))

    def take_off_coming(self, free: Ints, row: int, node: ComingNode) -> None:
        position = next(i for i, other in enumerate(self.coming) if other is node)
        place = NodeTraits(node.name, {HOSTNAME: node.name, **node.labels}, node.taints, unschedulable=False)
        for index, shape in self._on_coming[position]:
            if self._admitted(index, [place])[0]:
                self.on_coming.append((position, index))
                for resource, amount in self._classes.shapes[shape]:
                    free[resource, row] -= amount

    def __bool__(self) -> bool:
        return bool(self.class_indexes)

    @property
    def on_templates(self) -> list[PodClass]:
        indexes = {index for pods in self._on_templates for index, _ in pods}
        return [self._classes.classes[index] for index in sorted(indexes)]

    def on_offering(self, offering: int) -> list[PodClass]:
        return [self._classes.classes[index] for index in self._on_offering[offering]]

    def increments(self, offering: int) -> list[TopologyCounter]:
        """Return the counters that the DaemonSet pods of one new node increment, once per pod."""
        if not self:
            return []
        return [counter for daemon in self.on_offering(offering) for counter in self.pod_counters.increments(daemon)]

    def all_increments(self) -> list[TopologyCounter]:
        """Return the counters that DaemonSet pods of any offering increment."""
        return [counter for daemon in self.on_templates for counter in self.pod_counters.increments(daemon)]

    def allow(self, pod_class: PodClass) -> Mask:
        """By offering: whether the pod could run beside the DaemonSet pods of such a node."""
        against = self.with_ports_of(pod_class)
        for index, place in enumerate(self.offerings.node_traits):
            for other in self.on_offering(index):
                against[index] |= any(
                    (t.topology_key == HOSTNAME or t.topology_key in place.labels)
                    and self.pod_counters.covers(t, one.identity)
                    for terms, one in ((pod_class.anti_affinity, other), (other.anti_affinity, pod_class))
                    for t in terms
                )
        return ~against

    def with_ports_of(self, pod_class: PodClass) -> Mask:
        """By offering: whether a DaemonSet pod of such a node takes a host port that the pod requests."""
        taken = np.zeros(len(self.offerings.sold), np.bool_)
        if pod_class.ports:
            for index in range(len(taken)):
                taken[index] = any(ports_conflict(pod_class.ports, daemon.ports) for daemon in self.on_offering(index))
        return taken

    def satisfy_affinity(self, pod_class: PodClass, lane: Lane) -> bool:
        """Whether a new node of the lane brings DaemonSet pods that satisfy the pod's affinity."""
        if not self or any(t.topology_key != HOSTNAME and not lane.domains[t.topology_key] for t in pod_class.affinity):
            return False  # without the label there is no domain to share
        return any(
            all(self.pod_counters.covers(term, daemon.identity) for term in pod_class.affinity)
            for offering in lane.members.tolist()
            for daemon in self.on_offering(offering)
        )
