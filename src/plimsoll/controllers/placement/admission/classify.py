"""The capacity class of a pod that is being created. The webhook calls `PodClassifier.answer` for each AdmissionReview.

A pod gets the class that its ReplicaSet or StatefulSet lacks, counting the pods in view and the admitted pods that are not in
view yet. Between classes that are both short the ordinal decides for a StatefulSet, so that at first creation every pod has the
class of its ordinal. If a ReplicaSet already has all desired replicas, the view is behind, and the result is `LiveReadNeeded`:
the webhook reads the objects live and asks again.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from plimsoll.controllers.placement.admission.counts import AdmissionCounts
from plimsoll.controllers.placement.admission.live_objects import LiveObjects
from plimsoll.controllers.placement.admission.patch import AdmittedPod, ClassAssignment, Operation, patch_for
from plimsoll.controllers.placement.admission.pending_pods import AdmissionLedger, AdmittedPodEntry
from plimsoll.controllers.placement.annotations import CLASS, TOKEN, PlacementReason
from plimsoll.controllers.placement.rebalance.next_action import ReplicaState
from plimsoll.controllers.placement.replica_counts import Replica, replicas
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spot_backoff import backoff_of, spot_blocker
from plimsoll.controllers.placement.target import CapacityClass, target
from plimsoll.controllers.placement.workload import Managed, Unmanaged, evaluate_workload, replica_set_of
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.apps import Deployment, ReplicaSet, StatefulSet
from plimsoll.kube.types.core import Affinity, Pod, PodSpec
from plimsoll.kube.types.meta import Metadata, OwnerReference, Part
from plimsoll.kube.types.resources import DEPLOYMENTS, NODES, PODS, REPLICASETS, STATEFULSETS
from plimsoll.kube.workloads import pods_of, replica_sets_of

NEEDS = (PODS, NODES, REPLICASETS, DEPLOYMENTS, STATEFULSETS)
_MIRROR = "kubernetes.io/config.mirror"  # a static pod of the kubelet
_CACHED_VERDICTS = 4096


class AdmissionRequest(Part, frozen=True, gc=False):
    """The fields of an AdmissionReview's request that placement reads."""

    uid: str
    operation: str = ""
    namespace: str = ""
    dry_run: bool | None = None
    sub_resource: str = ""
    object: AdmittedPod | None = None


class ClassAssigned(Struct, frozen=True):
    """The pod gets this class, by this patch."""

    assignment: ClassAssignment
    patch: list[Operation]


class NotAssigned(Struct, frozen=True):
    """The pod is admitted unchanged, for the reason with this code."""

    code: str


class LiveReadKind(Enum):
    """Objects that the view may not show yet."""

    OWNERS = "owners"
    PODS = "pods"


class LiveReadNeeded(Struct, frozen=True):
    """Read these objects live, then ask again, also if the read failed."""

    what: LiveReadKind
    namespace: str
    owner: OwnerReference
    known: ReplicaSet | None = None  # the newest known version of `owner`


AdmissionResult: TypeAlias = ClassAssigned | NotAssigned | LiveReadNeeded
_Owner: TypeAlias = tuple[ReplicaSet | None, Deployment | StatefulSet]


class PodClassifier:
    """Assigns classes, and keeps what that needs: the ledger, live reads and counts. No I/O and no clock of its own."""

    def __init__(self, view: View, settings: PlacementSettings, *, watch_namespaces: Collection[str] = ()) -> None:
        self._view = view
        self._settings = settings
        self._watch_namespaces = frozenset(watch_namespaces)
        self.ledger = AdmissionLedger()
        self.live = LiveObjects()
        self._needed = [view[kind] for kind in NEEDS]
        self._counts = AdmissionCounts(view, settings.rules, self.ledger)
        self._verdicts: dict[str, tuple[Deployment | StatefulSet, Managed | Unmanaged]] = {}

    def answer(
        self,
        request: AdmissionRequest,
        now: datetime,
        now_seconds: float,
        *,
        token: str,
        looked: Collection[LiveReadKind] = (),
        approximate: bool = False,
    ) -> AdmissionResult:
        """The class of the pod in this request.

        token: written on the pod if it gets a class. looked: what was read live for this request, or could not be read.
        approximate: the leader or the API server could not be reached, so that the class may be wrong.
        """
        pod = request.object
        owner = _owner_of(pod, request) if pod is not None else None
        if pod is None or owner is None:
            return NotAssigned("NoReplica")
        if self._watch_namespaces and request.namespace not in self._watch_namespaces:
            return NotAssigned("NamespaceNotWatched")
        found = self._workload(owner, request.namespace)
        if isinstance(found, NotAssigned):
            return found
        if found is None:
            if LiveReadKind.OWNERS not in looked:
                return LiveReadNeeded(
                    LiveReadKind.OWNERS, request.namespace, owner, self._replica_set(owner, request.namespace)
                )
            return NotAssigned("OwnerUnknown")
        replica_set, workload = found
        managed = self._evaluate(workload)
        if isinstance(managed, Unmanaged):
            return NotAssigned(managed.reason.code)
        self.ledger.expire(now_seconds)
        known = self.ledger.find(pod.metadata.annotations.get(TOKEN, ""), owner.uid)
        if known is not None:
            return self._assign(
                pod, ClassAssignment(known.capacity_class, known.why, known.token, self._settings.installation)
            )
        if self._settings.rules.chosen_by(_as_spec(pod)) is not None:
            # Another webhook selected a class; or we did, in a dry run or before a change of leader, and are reinvoked.
            return NotAssigned("ClassChosen")
        if pod.matches_no_node:
            return NotAssigned("MatchesNoNode")
        if replica_set is None:
            by_count = self._class_in_stateful_set(managed, pod.metadata.name)
            if by_count is None:
                return NotAssigned("NoOrdinal")
            wanted, why = by_count
            if approximate or not self._certain(looked):
                why = PlacementReason.APPROXIMATE
        else:
            expected = self._expected_pods(replica_set)
            free = _limit(replica_set, managed) - sum(expected)
            if free < 1:
                if (look := _behind(owner, replica_set, looked)) is not None:
                    return look
                if not approximate and not request.dry_run:
                    # The ReplicaSet creates this pod, so one that was admitted before must have been refused afterwards.
                    self.ledger.drop_oldest(replica_set.uid, 1 - free)
                    expected = self._expected_pods(replica_set)
            wanted, why = _lacking(expected, managed, self._old_on_demand(replica_set, workload))
            if approximate or not self._certain(looked):
                why = PlacementReason.APPROXIMATE
        if wanted is CapacityClass.SPOT and self._backs_off(workload, now):
            wanted, why = CapacityClass.ON_DEMAND, PlacementReason.HELD_BACK
        if not request.dry_run:
            name = pod.metadata.name if replica_set is None else ""
            self.ledger.record(AdmittedPodEntry(token, owner.uid, wanted, why, now_seconds, name))
        return self._assign(pod, ClassAssignment(wanted, why, token, self._settings.installation))

    def any_replica_can_answer(self, request: AdmissionRequest) -> bool:
        """Whether every replica of the operator gives the same result: no ledger is needed, or the pod stays unchanged."""
        pod = request.object
        owner = _owner_of(pod, request) if pod is not None else None
        if owner is None:
            return True
        found = self._workload(owner, request.namespace)
        if found is None:
            return False
        return isinstance(found, NotAssigned) or isinstance(self._evaluate(found[1]), Unmanaged)

    def record_owner(self, owner: ReplicaSet | Deployment | StatefulSet, now_seconds: float) -> None:
        self.live.expire(now_seconds)
        self.live.record_owner(owner, now_seconds)

    def record_pods(self, owner_uid: str, pods: Collection[Pod], resource_version: str, now_seconds: float) -> None:
        self.live.record_pods(
            owner_uid, pods, resource_version, now_seconds,
            view=self._view, rules=self._settings.rules, ledger=self.ledger,
        )  # fmt: skip

    # ── the workload ────────────────────────────────────────────────────────────────────────────────────────────────

    def _replica_set(self, owner: OwnerReference, namespace: str) -> ReplicaSet | None:
        found = self.live.owner(owner.uid, replica_set_of(owner, namespace, self._view))
        return found if isinstance(found, ReplicaSet) else None

    def _workload(self, owner: OwnerReference, namespace: str) -> _Owner | NotAssigned | None:
        """The workload above this owner; None if the view does not show it or the ReplicaSet yet."""
        replica_set = None
        if owner.kind == "ReplicaSet":
            replica_set = self._replica_set(owner, namespace)
            if replica_set is None:
                return None
            above = replica_set.metadata.controller
            if above is None or above.kind != "Deployment":
                return NotAssigned("NoWorkload")  # a bare ReplicaSet, or one of an unmanaged kind
            owner = above
        store = self._view[STATEFULSETS] if owner.kind == "StatefulSet" else self._view[DEPLOYMENTS]
        in_view = store.get(namespace, owner.name)
        if in_view is not None and in_view.uid != owner.uid:
            in_view = None
        workload = self.live.owner(owner.uid, in_view)
        return (replica_set, workload) if isinstance(workload, Deployment | StatefulSet) else None

    def _evaluate(self, workload: Deployment | StatefulSet) -> Managed | Unmanaged:
        held = self._verdicts.get(workload.uid)
        if held is not None and held[0] is workload:
            return held[1]
        if len(self._verdicts) >= _CACHED_VERDICTS:
            self._verdicts.clear()
        verdict = evaluate_workload(workload, self._settings)
        self._verdicts[workload.uid] = workload, verdict
        return verdict

    # ── the class ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _expected_pods(self, replica_set: ReplicaSet) -> tuple[int, int]:
        """Spot and on-demand pods of this ReplicaSet, in view or in the ledger."""
        spot, on_demand = self.live.pods(replica_set.namespace, replica_set.uid, self._view) or self._counts.of(
            replica_set.namespace, replica_set.uid
        )
        pending = self.ledger.pending(replica_set.uid)
        return spot + pending.spot, on_demand + pending.on_demand

    def _old_on_demand(self, replica_set: ReplicaSet, workload: Deployment | StatefulSet) -> int:
        """On-demand pods of the workload's other ReplicaSets."""
        if not isinstance(workload, Deployment):
            return 0
        others = [one.uid for one in replica_sets_of(workload, self._view) if one.uid != replica_set.uid]
        return sum(self._counts.of(workload.namespace, uid)[1] for uid in others)

    def _class_in_stateful_set(self, managed: Managed, name: str) -> tuple[CapacityClass, PlacementReason] | None:
        """The class of a StatefulSet pod: the one that is short among the other ordinals, else that of its ordinal.

        Pods beyond the replica count do not count: Kubernetes deletes them. None for a name without an ordinal.
        """
        position, by_ordinal = managed.position_of(name), managed.class_of_ordinal(name)
        if position is None or by_ordinal is None:
            return None
        share = managed.policy.share
        count = max(managed.workload.spec.replicas, position + 1)  # the view may not show a larger count yet

        def stays(other: str) -> bool:
            return other != name and (at := managed.position_of(other)) is not None and at < count

        classes = {
            replica.pod.name: replica.capacity_class
            for replica in replicas(pods_of(managed.workload, self._view), self._view, self._settings.rules)
        }
        classes |= {entry.pod_name: entry.capacity_class for entry in self.ledger.entries(managed.workload.uid)}
        others = [found for other, found in classes.items() if stays(other)]
        wanted, spot = target(count, share), sum(1 for found in others if found is CapacityClass.SPOT)
        on_demand = len(others) - spot
        if spot < wanted.spot and on_demand < wanted.on_demand:
            return by_ordinal, PlacementReason.ORDINAL
        short = CapacityClass.SPOT if spot < wanted.spot else CapacityClass.ON_DEMAND
        if short is by_ordinal:
            return short, PlacementReason.ORDINAL
        below = short is CapacityClass.ON_DEMAND and on_demand < share.min_on_demand
        return short, PlacementReason.MINIMUM if below else PlacementReason.SHARE

    def _backs_off(self, workload: Deployment | StatefulSet, now: datetime) -> bool:
        settings = self._settings
        if settings.memory not in self._view:
            return False
        record = backoff_of(workload.uid, self._view, settings)
        if record is None or record.expired(now):
            return False
        sent = _JUST_SENT if self._spot_pod_pending(workload) else ()
        in_view = replicas(pods_of(workload, self._view), self._view, settings.rules)
        return spot_blocker(workload.uid, (*in_view, *sent), self._view, now, settings) is not None

    def _spot_pod_pending(self, workload: Deployment | StatefulSet) -> bool:
        """Whether a pod of the ledger is for spot: after a shortage one is enough to try whether spot is back."""
        owners = [workload.uid]
        if isinstance(workload, Deployment):
            owners = [replica_set.uid for replica_set in replica_sets_of(workload, self._view)]
        return any(self.ledger.pending(uid).spot for uid in owners)

    def _certain(self, looked: Collection[LiveReadKind]) -> bool:
        """Whether the counts are complete: the stores are synced, or the pods were read live."""
        return LiveReadKind.PODS in looked or all(store.synced for store in self._needed)

    def _assign(self, pod: AdmittedPod, assignment: ClassAssignment) -> ClassAssigned:
        patch = patch_for(pod, assignment, rules=self._settings.rules, in_use=self._counts.rules_in_use)
        return ClassAssigned(assignment, patch)


def _owner_of(pod: AdmittedPod, request: AdmissionRequest) -> OwnerReference | None:
    """The ReplicaSet or StatefulSet that creates this pod; None for bare and static pods."""
    if request.operation != "CREATE" or request.sub_resource or _MIRROR in pod.metadata.annotations:
        return None
    owner = pod.metadata.controller
    if owner is None or owner.kind not in ("ReplicaSet", "StatefulSet") or not owner.api_version.startswith("apps/"):
        return None
    return owner


def _behind(owner: OwnerReference, replica_set: ReplicaSet, looked: Collection[LiveReadKind]) -> LiveReadNeeded | None:
    """What to read live when a pod is created although no replica seems to be missing.

    An autoscaler has just raised the count, a pod was deleted, or an admitted pod was refused.
    """
    what = next((what for what in LiveReadKind if what not in looked), None)
    return LiveReadNeeded(what, replica_set.namespace, owner, replica_set) if what is not None else None


def _lacking(expected: tuple[int, int], managed: Managed, old_on_demand: int) -> tuple[CapacityClass, PlacementReason]:
    """The class that the ReplicaSet lacks: on-demand first.

    During a rollout the pods of older ReplicaSets still run. On-demand pods beyond the target and the surge would need capacity
    that is gone afterwards, so the new ReplicaSet gets its spot pods then, and its on-demand pods as the old ones go.
    """
    spot, on_demand = expected
    wanted = ReplicaState(spot, on_demand, managed.target).next_class()
    if wanted is CapacityClass.ON_DEMAND and old_on_demand and spot < managed.target.spot:
        workload = managed.workload
        most = managed.target.on_demand + workload.spec.strategy.surge(workload.spec.replicas)
        if on_demand + old_on_demand >= most:
            return CapacityClass.SPOT, PlacementReason.SHARE
    if wanted is CapacityClass.ON_DEMAND and on_demand < managed.policy.share.min_on_demand:
        return wanted, PlacementReason.MINIMUM
    return wanted, PlacementReason.SHARE


def _limit(replica_set: ReplicaSet, managed: Managed) -> int:
    """How many pods this ReplicaSet should have. During a rollout it grows step by step."""
    return min(managed.workload.spec.replicas, replica_set.spec.replicas)


def _as_spec(pod: AdmittedPod) -> PodSpec:
    affinity = pod.spec.affinity
    return PodSpec(
        node_selector=pod.spec.node_selector,
        affinity=Affinity(node_affinity=affinity.node_affinity) if affinity is not None else None,
    )


_JUST_SENT = (
    Replica(
        Pod(metadata=Metadata(name="(just admitted)", annotations={CLASS: CapacityClass.SPOT.value})),
        CapacityClass.SPOT,
    ),
)
