"""Find the workload of a pod, and decide whether placement manages it and by which policy."""

from __future__ import annotations

from msgspec import Struct

from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spec import (
    ENABLED,
    MIN_ON_DEMAND,
    SPOT_PERCENTAGE,
    ParsedAnnotations,
    Policy,
    parse_annotations,
)
from plimsoll.controllers.placement.target import CapacityClass, Target, class_at, target
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.apps import Deployment, ReplicaSet, StatefulSet
from plimsoll.kube.types.meta import KubeObject, OwnerReference
from plimsoll.kube.types.resources import DEPLOYMENTS, NAMESPACES, REPLICASETS, STATEFULSETS, Key
from plimsoll.runtime.decision import Reason

INVALID = "InvalidAnnotations"
CONFLICT = "PlacementConflict"
MINIMUM_TOO_HIGH = "MinOnDemandExceedsReplicas"
USER_ERRORS = frozenset({INVALID, CONFLICT, MINIMUM_TOO_HIGH})  # problems that the author of the workload must fix
KUBE_SYSTEM = "kube-system"


class Managed(Struct, frozen=True):
    """A workload that placement manages."""

    workload: Deployment | StatefulSet
    policy: Policy

    @property
    def key(self) -> Key:
        return key_of(self.workload)

    @property
    def target(self) -> Target:
        return target(self.workload.spec.replicas, self.policy.share)

    def position_of(self, pod_name: str) -> int | None:
        """The position of a StatefulSet pod, counted from `spec.ordinals.start`; None if the name is not one of this set."""
        prefix, _, ordinal = pod_name.rpartition("-")
        if prefix != self.workload.name or not (ordinal.isascii() and ordinal.isdecimal()):
            return None
        position = int(ordinal) - self.workload.spec.ordinals.start
        return position if position >= 0 else None

    def class_of_ordinal(self, pod_name: str) -> CapacityClass | None:
        """The class of a StatefulSet pod by its ordinal; None if the name is not one of this set."""
        position = self.position_of(pod_name)
        return class_at(position, self.policy.share) if position is not None else None


class Unmanaged(Struct, frozen=True):
    """A workload that placement does not manage, and the reason. Codes of `USER_ERRORS` are errors of its author."""

    reason: Reason

    @property
    def is_user_error(self) -> bool:
        return self.reason.code in USER_ERRORS


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
    """The ReplicaSet of an owner reference, by UID; None if the view does not have it."""
    if owner is None or owner.kind != "ReplicaSet":
        return None
    found = view[REPLICASETS].get(namespace, owner.name)
    return found if found is not None and found.uid == owner.uid else None


def workload_of(obj: KubeObject, view: View) -> Deployment | StatefulSet | None:
    """The Deployment or StatefulSet above a pod or a ReplicaSet, by UID; None if the view has none.

    Uses only the object's namespace and controller, so it also works for a pod that is being admitted.
    """
    owner = obj.metadata.controller
    if (replica_set := replica_set_of(owner, obj.namespace, view)) is not None:
        owner = replica_set.metadata.controller
    if owner is None:
        return None
    found = workload_at(Key(owner.kind, obj.namespace, owner.name), view)
    return found if found is not None and found.uid == owner.uid else None


def parse_workload(workload: KubeObject, settings: PlacementSettings) -> ParsedAnnotations:
    return parse_annotations(workload, rounding=settings.rounding, percent_sign=settings.percent_sign)


def namespace_exclusion(namespace: str, view: View, settings: PlacementSettings) -> Unmanaged | None:
    """Why no workload of this namespace is managed, or None.

    The webhook does not see pods of an excluded namespace, so a move could not change their class. A namespace that is not in
    view counts as one without labels.
    """
    if namespace in (KUBE_SYSTEM, settings.namespace):
        return _unmanaged("NamespaceExcluded", f"the webhook does not see pods of namespace {namespace}")
    wanted = settings.namespace_labels
    if not wanted:
        return None
    found = view[NAMESPACES].get("", namespace)
    labels = found.labels if found is not None else {}
    missing = [f"{label}={value}" for label, value in wanted.items() if labels.get(label) != value]
    if not missing:
        return None
    message = f"namespace {namespace} has no label {', '.join(missing)}, which placement.namespaceSelector requires"
    return _unmanaged("NamespaceNotSelected", message)


def evaluate_workload(workload: Deployment | StatefulSet, settings: PlacementSettings) -> Managed | Unmanaged:
    """Whether placement manages this workload and by which policy; or why not, in words for its author."""
    kind, _, _ = key_of(workload)
    where = f"{kind} {workload.namespace}/{workload.name}"
    if workload.terminating:
        return _unmanaged("Gone", f"{where} is being deleted")
    parsed = parse_workload(workload, settings)
    if not parsed.enabled:
        return _unmanaged("NotEnabled", f"{where} does not set {ENABLED}")
    if parsed.problems:
        problems = "; ".join(str(problem) for problem in parsed.problems)
        return _unmanaged(INVALID, f"{where}: {problems}. It is not evaluated until this is fixed.")
    if parsed.policy is None:
        return _unmanaged("NothingAsked", f"{where} is enabled and has neither {MIN_ON_DEMAND} nor {SPOT_PERCENTAGE}")
    label = settings.rules.chosen_by(workload.spec.template.spec)
    if label is not None:
        return _unmanaged(
            CONFLICT,
            f"{where}: its pod template selects a class itself, by {label}. It is not managed; "
            f"remove {label} from the template's nodeSelector and node affinity to have it managed.",
        )
    minimum, count = parsed.policy.share.min_on_demand, workload.spec.replicas
    if minimum > count > 0 and settings.when_min_exceeds_replicas == "ignore":
        return _unmanaged(
            MINIMUM_TOO_HIGH,
            f'{where}: {MIN_ON_DEMAND} is "{minimum}" and there are {count} replicas. It is not managed; lower the minimum, '
            "raise the replicas, or set placement.whenMinExceedsReplicas: on-demand.",
        )
    return Managed(workload, parsed.policy)


def _unmanaged(code: str, message: str) -> Unmanaged:
    return Unmanaged(Reason(code, message))
