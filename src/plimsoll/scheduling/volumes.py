"""Which nodes the volumes of a pod allow. Used by `static_feasibility` and `explain`."""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.kube.labels import REGION, ZONE
from plimsoll.kube.types.core import NodeSelector
from plimsoll.kube.types.meta import Labels
from plimsoll.scheduling.pod_equivalence import PodClass
from plimsoll.scheduling.rules import required_affinity_matches
from plimsoll.scheduling.snapshot import Snapshot

_GA = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
}
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


def volume_rules(snapshot: Snapshot, pod_class: PodClass) -> VolumeRules:
    """Return the requirements of a class. Bound claims require the nodes that can reach their volumes.

    Unbound claims exclude no node, because the provisioner chooses where to create the volume; the plan notes that.
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
        elif not claim.volume:
            if claim.selected_node:
                selected.append(claim.selected_node)
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
