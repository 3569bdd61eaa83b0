"""The same rule in three vocabularies: the checker's, the engine's and kube-scheduler's."""

from __future__ import annotations

import re
from collections.abc import Mapping

from plimsoll.scheduling.model import Constraint

# What the engine's code means. The rules that are missing here are not about a node: gates, limits, priorities.
ENGINE: Mapping[Constraint, frozenset[str]] = {
    Constraint.NODE_UNSCHEDULABLE: frozenset({"unschedulable"}),
    Constraint.NODE_SELECTOR: frozenset({"node-affinity"}),
    Constraint.TAINT: frozenset({"taints"}),
    Constraint.HOST_PORT: frozenset({"host-ports"}),
    Constraint.RESOURCES: frozenset({"resources", "pods"}),
    Constraint.VOLUME: frozenset({"volumes"}),
    Constraint.TOPOLOGY_SPREAD: frozenset({"topology-spread"}),
    Constraint.POD_AFFINITY: frozenset({"pod-affinity"}),
    Constraint.POD_ANTI_AFFINITY: frozenset({"pod-anti-affinity"}),
    Constraint.EXISTING_ANTI_AFFINITY: frozenset({"anti-affinity-of-others"}),
}

_KUBE_SCHEDULER = {
    "resources": r"Insufficient ",
    "pods": r"Too many pods",
    "node-affinity": r"didn't match Pod's node affinity/selector|didn't satisfy plugin\(s\) \[NodeAffinity\]",
    "taints": r"had untolerated taint",
    "unschedulable": r"were unschedulable",
    "host-ports": r"didn't have free ports",
    "pod-affinity": r"didn't match pod affinity rules",
    "pod-anti-affinity": r"didn't match pod anti-affinity rules",
    "anti-affinity-of-others": r"didn't satisfy existing pods anti-affinity rules",
    "topology-spread": r"didn't match pod topology spread constraints",
    "volumes": r'persistentvolumeclaim "[^"]+" not found|no available volume zone|PersistentVolume\'s node affinity',
}


def rules_in(message: str) -> frozenset[str]:
    """The rules that a message of kube-scheduler speaks of."""
    return frozenset(rule for rule, pattern in _KUBE_SCHEDULER.items() if re.search(pattern, message))
