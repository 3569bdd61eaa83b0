"""Which nodes the volumes of a pod allow. Used by `static_feasibility` and `explain`."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from plimsoll.kube.labels import REGION, ZONE
from plimsoll.kube.types.core import NodeSelector, NodeSelectorTerm
from plimsoll.kube.types.meta import Labels, Requirement
from plimsoll.scheduling.pod_equivalence import PodClass
from plimsoll.scheduling.rules import required_affinity_matches
from plimsoll.scheduling.snapshot import ClaimFacts, Snapshot

_GA = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
}
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_ZONE_LABELS = (*_GA, *_GA.values())


class VolumeRules(NamedTuple):
    """The combined requirements of all claims of a pod."""

    affinities: tuple[NodeSelector, ...] = ()
    zones: tuple[tuple[str, frozenset[str]], ...] = ()  # label of the volume, and the values it allows
    selected_nodes: tuple[str, ...] = ()
    problem: str = ""  # set if no node is feasible: the reason
    unknown: str = ""  # what is unknown; does not exclude any node

    def allow(self, labels: Labels, name: str) -> bool:
        if self.problem:
            return False
        if any(name != node for node in self.selected_nodes):
            return False
        if not all(required_affinity_matches(affinity, labels, name) for affinity in self.affinities):
            return False
        if not self.zones or not any(label in labels for label in _ZONE_LABELS):
            return True  # a cluster without zones: its volumes may carry zone labels anyway
        return all(labels.get(key, labels.get(_GA.get(key, key))) in values for key, values in self.zones)

    @property
    def label_keys(self) -> set[str]:
        """Return the node labels that the result depends on."""
        keys = {e.key for a in self.affinities for t in a.node_selector_terms for e in t.match_expressions}
        return keys | set(_ZONE_LABELS) if self.zones else keys

    @property
    def names_node(self) -> bool:
        return bool(self.selected_nodes) or any(t.match_fields for a in self.affinities for t in a.node_selector_terms)


NO_VOLUMES = VolumeRules()


def volume_rules(
    snapshot: Snapshot, pod_class: PodClass, *, moving: bool = False, contended: Collection[tuple[str, str]] = ()
) -> VolumeRules:
    """Return the requirements of a class. Bound claims require the nodes that can reach their volumes.

    Unbound claims require the allowed topologies of their storage class; the plan notes them, because the provisioner may
    add requirements of its own. `moving` and `contended`: see `PlanState`.
    """
    if not pod_class.claims:
        return NO_VOLUMES
    affinities, zones, selected, unknown = [], [], [], []
    for name, ephemeral in pod_class.claims:
        claim = None if snapshot.claims is None else snapshot.claims.get((pod_class.namespace, name))
        if snapshot.claims is None:
            unknown.append(f"claim {name} is not watched")
        elif claim is None and ephemeral:
            unknown.append(f"claim {name} does not exist yet")
        elif claim is None:
            return VolumeRules(problem=f"claim {pod_class.namespace}/{name} does not exist")
        elif claim.terminating:
            return VolumeRules(problem=f"claim {pod_class.namespace}/{name} is being deleted")
        elif claim.one_pod_only and (user := _other_user(snapshot, pod_class, name, moving=moving)):
            return VolumeRules(
                problem=f"claim {pod_class.namespace}/{name} is ReadWriteOncePod and in use by pod {user}"
            )
        elif claim.one_pod_only and (pod_class.namespace, name) in contended:
            return VolumeRules(
                problem=f"claim {pod_class.namespace}/{name} is ReadWriteOncePod and several pending pods use it"
            )
        elif not claim.volume:
            if claim.selected_node:
                selected.append(claim.selected_node)
            problem, topology = _provisioning(snapshot, claim)
            if problem:
                return VolumeRules(problem=f"claim {pod_class.namespace}/{name} is not bound: {problem}")
            if topology is not None:
                affinities.append(topology)
            unknown.append(f"claim {name} is not bound yet")
        elif snapshot.volumes is None:
            unknown.append(f"volume {claim.volume} is not watched")
        elif (volume := snapshot.volumes.get(claim.volume)) is None:
            return VolumeRules(
                problem=f"claim {pod_class.namespace}/{name} is bound to {claim.volume}, which does not exist"
            )
        else:
            if volume.affinity is not None:
                affinities.append(volume.affinity)
            zones += [(k, frozenset(volume.labels[k].split("__"))) for k in _ZONE_LABELS if k in volume.labels]
    return VolumeRules(tuple(affinities), tuple(zones), tuple(selected), "", "; ".join(unknown))


def _provisioning(snapshot: Snapshot, claim: ClaimFacts) -> tuple[str, NodeSelector | None]:
    """Return why no pod with this unbound claim can be scheduled, or else the nodes where its volume may be created."""
    if not snapshot.storage_classes:
        return "", None  # not known
    found = snapshot.storage_classes.get(claim.storage_class)
    if found is None:
        return f'storage class "{claim.storage_class}" does not exist', None
    if not found.waits_for_pod:
        return f"storage class {claim.storage_class} binds claims before pods are scheduled", None
    if found.provisioner == _NO_PROVISIONER:
        return f"storage class {claim.storage_class} creates no volumes, and which one it gets is not modelled", None
    if not found.topologies:
        return "", None
    terms = [
        NodeSelectorTerm(tuple(Requirement(e.key, "In", e.values) for e in term.match_label_expressions))
        for term in found.topologies
    ]
    return "", NodeSelector(tuple(terms))


def _other_user(snapshot: Snapshot, pod_class: PodClass, claim: str, *, moving: bool) -> str:
    """Return a running pod that uses the claim, if there is one besides the pod that moves."""
    users = [
        slot
        for other in snapshot.classes.classes
        if other.namespace == pod_class.namespace and any(name == claim for name, _ in other.claims)
        for slot in np.flatnonzero((snapshot.pod_classes == other.index) & (snapshot.pod_rows >= 0)).tolist()
    ]
    return snapshot.first_named(users) if len(users) > moving else ""
