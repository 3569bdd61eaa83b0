"""Whose pod is it, and is that workload managed? From a pod or its owner up to the workload and what it asks for."""

from __future__ import annotations

from msgspec import Struct

from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spec import MIN_ON_DEMAND, SPOT_PERCENTAGE, Policy, Reading, read
from plimsoll.controllers.placement.target import CapacityClass, Target, class_at, target
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Deployment, KubeObject, OwnerReference, ReplicaSet, StatefulSet
from plimsoll.kube.types.resources import DEPLOYMENTS, NAMESPACES, REPLICASETS, STATEFULSETS, Key
from plimsoll.runtime.decision import Reason

INVALID = "InvalidAnnotations"
CONFLICT = "PlacementConflict"
MINIMUM_TOO_HIGH = "MinOnDemandExceedsReplicas"
FAULTS = frozenset({INVALID, CONFLICT, MINIMUM_TOO_HIGH})  # what a person should mend
KUBE_SYSTEM = "kube-system"


class Managed(Struct, frozen=True):
    """A workload whose replicas we place."""

    workload: Deployment | StatefulSet
    policy: Policy

    @property
    def key(self) -> Key:
        return key_of(self.workload)

    @property
    def target(self) -> Target:
        return target(self.workload.spec.replicas, self.policy.share)

    def class_of_ordinal(self, pod_name: str) -> CapacityClass | None:
        """The class of a StatefulSet's pod, which follows from its name; None for a name that is not of this set."""
        prefix, _, ordinal = pod_name.rpartition("-")
        if prefix != self.workload.name or not (ordinal.isascii() and ordinal.isdecimal()):
            return None
        position = int(ordinal) - self.workload.spec.ordinals.start
        return class_at(position, self.policy.share) if position >= 0 else None


class Unmanaged(Struct, frozen=True):
    """A workload that is left alone, and why. A code among `FAULTS` is for its author to mend."""

    reason: Reason

    @property
    def at_fault(self) -> bool:
        return self.reason.code in FAULTS


def key_of(workload: Deployment | StatefulSet) -> Key:
    return (STATEFULSETS if isinstance(workload, StatefulSet) else DEPLOYMENTS).key(workload)


def workload_at(key: Key, view: View) -> Deployment | StatefulSet | None:
    match key.kind:
        case "Deployment":
            return view[DEPLOYMENTS].get(key.namespace, key.name)
        case "StatefulSet":
            return view[STATEFULSETS].get(key.namespace, key.name)
        case _:
            return None


def replica_set_of(owner: OwnerReference | None, namespace: str, view: View) -> ReplicaSet | None:
    """The ReplicaSet that an owner reference means, by UID; None if the view does not have it."""
    if owner is None or owner.kind != "ReplicaSet":
        return None
    found = view[REPLICASETS].get(namespace, owner.name)
    return found if found is not None and found.uid == owner.uid else None


def workload_of(obj: KubeObject, view: View) -> Deployment | StatefulSet | None:
    """The Deployment or StatefulSet above a pod or a ReplicaSet, by UID; None if there is none in view.

    Needs only the object's namespace and controller, so it also answers for a pod that is just being admitted.
    """
    owner = obj.metadata.controller
    if (replica_set := replica_set_of(owner, obj.namespace, view)) is not None:
        owner = replica_set.metadata.controller
    if owner is None:
        return None
    found = workload_at(Key(owner.kind, obj.namespace, owner.name), view)
    return found if found is not None and found.uid == owner.uid else None


def reading_of(workload: KubeObject, settings: PlacementSettings) -> Reading:
    return read(workload, rounding=settings.rounding, percent_sign=settings.percent_sign)


def out_of_bounds(namespace: str, view: View, settings: PlacementSettings) -> Unmanaged | None:
    """Why nothing in this namespace is managed, or None: the API server does not ask about its pods, so no move would help.

    A namespace that is not in view has no label that is known.
    """
    if namespace in (KUBE_SYSTEM, settings.namespace):
        return _unmanaged("NamespaceExcluded", f"pods of namespace {namespace} start without being asked about")
    wanted = settings.namespace_labels
    if not wanted:
        return None
    found = view[NAMESPACES].get("", namespace)
    labels = found.labels if found is not None else {}
    missing = [f"{label}={value}" for label, value in wanted.items() if labels.get(label) != value]
    if not missing:
        return None
    message = f"namespace {namespace} has no label {', '.join(missing)}, which placement.namespaceSelector asks for"
    return _unmanaged("NamespaceNotSelected", message)


def judge(workload: Deployment | StatefulSet, settings: PlacementSettings) -> Managed | Unmanaged:
    """Whether this workload is managed, and by what policy; or why it is not, in words for its author."""
    kind, _, _ = key_of(workload)
    where = f"{kind} {workload.namespace}/{workload.name}"
    if workload.terminating:
        return _unmanaged("Gone", f"{where} is leaving")
    reading = reading_of(workload, settings)
    if not reading.enabled:
        return _unmanaged("NotEnabled", f"{where} asks for no spot share")
    if reading.faults:
        faults = "; ".join(str(fault) for fault in reading.faults)
        return _unmanaged(INVALID, f"{where}: {faults}. It is not evaluated until this is mended.")
    if reading.policy is None:
        return _unmanaged("NothingAsked", f"{where} is enabled and has neither {MIN_ON_DEMAND} nor {SPOT_PERCENTAGE}")
    label = settings.rules.chosen_by(workload.spec.template.spec)
    if label is not None:
        return _unmanaged(
            CONFLICT,
            f"{where}: its pod template chooses a class itself, by {label}, and keeps that choice. It is not managed; "
            f"remove {label} from the template's nodeSelector and node affinity to have it managed.",
        )
    minimum, count = reading.policy.share.min_on_demand, workload.spec.replicas
    if minimum > count > 0 and settings.when_min_exceeds_replicas == "ignore":
        return _unmanaged(
            MINIMUM_TOO_HIGH,
            f'{where}: {MIN_ON_DEMAND} is "{minimum}" and there are {count} replicas. It is not managed; lower the minimum, '
            "raise the replicas, or set placement.whenMinExceedsReplicas: on-demand.",
        )
    return Managed(workload, reading.policy)


def _unmanaged(code: str, message: str) -> Unmanaged:
    return Unmanaged(Reason(code, message))
