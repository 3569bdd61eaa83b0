"""Which class does a pod get that is just being created? What the webhook answers, and nothing of how it is served.

A StatefulSet's pod has the class of its place. A ReplicaSet's pod gets what its ReplicaSet lacks, by what the view shows plus
what was admitted and is not in view yet. Where those two add up to all replicas that there should be, the view must be
behind, and the answer is `Look`: read live, then ask again.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from plimsoll.controllers.placement.admission.counts import AdmissionCounts
from plimsoll.controllers.placement.admission.live_objects import LiveReads
from plimsoll.controllers.placement.admission.patch import AdmittedPod, Marks, Operation, patch_for
from plimsoll.controllers.placement.admission.pending_pods import AdmissionLedger, Admitted
from plimsoll.controllers.placement.annotations import CLASS, TOKEN, Why
from plimsoll.controllers.placement.rebalance.next_action import ReplicaState
from plimsoll.controllers.placement.replica_counts import Replica, pods_of, replicas
from plimsoll.controllers.placement.settings import PlacementSettings
from plimsoll.controllers.placement.spot_backoff import held_back, holdback_of
from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.controllers.placement.workload import Managed, Unmanaged, judge, replica_set_of
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import (
    Affinity,
    Deployment,
    Metadata,
    OwnerReference,
    Part,
    Pod,
    PodSpec,
    ReplicaSet,
    StatefulSet,
)
from plimsoll.kube.types.resources import BY_OWNER, DEPLOYMENTS, NODES, PODS, REPLICASETS, STATEFULSETS

NEEDS = (PODS, NODES, REPLICASETS, DEPLOYMENTS, STATEFULSETS)
_MIRROR = "kubernetes.io/config.mirror"  # the kubelet's copy of a pod that it runs from a file
_REMEMBERED_VERDICTS = 4096


class Request(Part, frozen=True, gc=False):
    """The part of an AdmissionReview's request that matters."""

    uid: str
    operation: str = ""
    namespace: str = ""
    dry_run: bool | None = None
    sub_resource: str = ""
    object: AdmittedPod | None = None


class Assigned(Struct, frozen=True):
    """The pod gets this class."""

    marks: Marks
    patch: list[Operation]


class LeftAlone(Struct, frozen=True):
    """The pod is admitted as it came."""

    code: str


class What(Enum):
    """Something that the view may be behind with."""

    OWNERS = "owners"
    PODS = "pods"


class Look(Struct, frozen=True):
    """Read this live, then ask again; whatever could not be read is then no reason to look once more."""

    what: What
    namespace: str
    owner: OwnerReference
    known: ReplicaSet | None = None  # of `owner`, as new as it is known


Answer: TypeAlias = Assigned | LeftAlone | Look
_Owner: TypeAlias = tuple[ReplicaSet | None, Deployment | StatefulSet]


class Admission:
    """The state that answers are made from, and the answers. No I/O, no clock; the caller says what time it is."""

    def __init__(self, view: View, settings: PlacementSettings, *, watch_namespaces: Collection[str] = ()) -> None:
        self._view = view
        self._settings = settings
        self._watch_namespaces = frozenset(watch_namespaces)
        self.ledger = AdmissionLedger()
        self.live = LiveReads()
        self._needed = [view[kind] for kind in NEEDS]
        self._counts = AdmissionCounts(view, settings.rules, self.ledger)
        self._verdicts: dict[str, tuple[Deployment | StatefulSet, Managed | Unmanaged]] = {}

    def answer(
        self,
        request: Request,
        now: datetime,
        now_seconds: float,
        *,
        token: str,
        looked: Collection[What] = (),
        approximate: bool = False,
    ) -> Answer:
        """`token` marks the pod if it is given a class. `looked` was read live for this request, or could not be.

        approximate: the leader, or the API server, could not be asked, so that the answer may be off.
        """
        pod = request.object
        owner = _owner_of(pod, request) if pod is not None else None
        if pod is None or owner is None:
            return LeftAlone("NoReplica")
        if self._watch_namespaces and request.namespace not in self._watch_namespaces:
            return LeftAlone("NamespaceNotWatched")
        found = self._workload(owner, request.namespace)
        if isinstance(found, LeftAlone):
            return found
        if found is None:
            if What.OWNERS not in looked:
                return Look(What.OWNERS, request.namespace, owner, self._replica_set(owner, request.namespace))
            return LeftAlone("OwnerUnknown")
        replica_set, workload = found
        managed = self._judge(workload)
        if isinstance(managed, Unmanaged):
            return LeftAlone(managed.reason.code)
        self.ledger.expire(now_seconds)
        known = self.ledger.find(pod.metadata.annotations.get(TOKEN, ""), owner.uid)
        if known is not None:
            return self._assign(pod, Marks(known.capacity_class, known.why, known.token, self._settings.installation))
        if self._settings.rules.chosen_by(_as_spec(pod)) is not None:
            # Another webhook chose for it; or we did, in a dry run or before the leader changed, and are asked once more.
            return LeftAlone("ClassChosen")
        if pod.matches_no_node:
            return LeftAlone("MatchesNoNode")
        if replica_set is None:
            place = managed.class_of_ordinal(pod.metadata.name)
            if place is None:
                return LeftAlone("NoOrdinal")
            wanted, why = place, Why.ORDINAL
        else:
            under_way = self._under_way(replica_set)
            room = _limit(replica_set, managed) - sum(under_way)
            if room < 1:
                if (look := _behind(owner, replica_set, looked)) is not None:
                    return look
                if not approximate and not request.dry_run:
                    # There is room for this pod, or it would not be created: what stands in its place was refused after
                    # admission.
                    self.ledger.drop_oldest(replica_set.uid, 1 - room)
                    under_way = self._under_way(replica_set)
            wanted, why = _lacking(under_way, managed)
            if approximate or not self._certain(looked):
                why = Why.APPROXIMATE
        if wanted is CapacityClass.SPOT and self._held_back(workload, now):
            wanted, why = CapacityClass.ON_DEMAND, Why.HELD_BACK
        if not request.dry_run:
            self.ledger.record(Admitted(token, owner.uid, wanted, why, now_seconds))
        return self._assign(pod, Marks(wanted, why, token, self._settings.installation))

    def decided_alone(self, request: Request) -> bool:
        """Whether every replica of the operator gives the same answer: it needs no memory, or nothing is to be done."""
        pod = request.object
        owner = _owner_of(pod, request) if pod is not None else None
        if owner is None or owner.kind == "StatefulSet":
            return True
        found = self._workload(owner, request.namespace)
        if found is None:
            return False
        return isinstance(found, LeftAlone) or isinstance(self._judge(found[1]), Unmanaged)

    def saw_owner(self, owner: ReplicaSet | Deployment | StatefulSet, now_seconds: float) -> None:
        self.live.expire(now_seconds)
        self.live.saw_owner(owner, now_seconds)

    def saw_pods(self, owner_uid: str, pods: Collection[Pod], resource_version: str, now_seconds: float) -> None:
        self.live.saw_pods(
            owner_uid, pods, resource_version, now_seconds,
            view=self._view, rules=self._settings.rules, ledger=self.ledger,
        )  # fmt: skip

    # ── whose pod it is ──────────────────────────────────────────────────────────────────────────────────────────────

    def _replica_set(self, owner: OwnerReference, namespace: str) -> ReplicaSet | None:
        found = self.live.owner(owner.uid, replica_set_of(owner, namespace, self._view))
        return found if isinstance(found, ReplicaSet) else None

    def _workload(self, owner: OwnerReference, namespace: str) -> _Owner | LeftAlone | None:
        """The workload above this owner; None while one of them is not known."""
        replica_set = None
        if owner.kind == "ReplicaSet":
            replica_set = self._replica_set(owner, namespace)
            if replica_set is None:
                return None
            above = replica_set.metadata.controller
            if above is None or above.kind != "Deployment":
                return LeftAlone("NoWorkload")  # a ReplicaSet of its own, or of a kind that we do not manage
            owner = above
        store = self._view[STATEFULSETS] if owner.kind == "StatefulSet" else self._view[DEPLOYMENTS]
        in_view = store.get(namespace, owner.name)
        if in_view is not None and in_view.uid != owner.uid:
            in_view = None
        workload = self.live.owner(owner.uid, in_view)
        return (replica_set, workload) if isinstance(workload, Deployment | StatefulSet) else None

    def _judge(self, workload: Deployment | StatefulSet) -> Managed | Unmanaged:
        held = self._verdicts.get(workload.uid)
        if held is not None and held[0] is workload:
            return held[1]
        if len(self._verdicts) >= _REMEMBERED_VERDICTS:
            self._verdicts.clear()
        verdict = judge(workload, self._settings)
        self._verdicts[workload.uid] = workload, verdict
        return verdict

    # ── which class ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _under_way(self, replica_set: ReplicaSet) -> tuple[int, int]:
        """Spot and on-demand pods of this ReplicaSet, in view or on their way there."""
        spot, on_demand = self.live.pods(replica_set.namespace, replica_set.uid, self._view) or self._counts.of(
            replica_set.uid
        )
        pending = self.ledger.pending(replica_set.uid)
        return spot + pending.spot, on_demand + pending.on_demand

    def _held_back(self, workload: Deployment | StatefulSet, now: datetime) -> bool:
        settings = self._settings
        if settings.memory not in self._view:
            return False
        record = holdback_of(workload.uid, self._view, settings)
        if record is None or record.forgotten(now):
            return False
        sent = _JUST_SENT if self._sent_to_spot(workload) else ()
        seen = replicas(pods_of(workload, self._view), self._view, settings.rules)
        return held_back(workload.uid, (*seen, *sent), self._view, now, settings) is not None

    def _sent_to_spot(self, workload: Deployment | StatefulSet) -> bool:
        """Whether a pod that is not in view yet was sent to spot: one is enough to show whether spot is back."""
        owners = [workload.uid]
        if isinstance(workload, Deployment):
            owners = [replica_set.uid for replica_set in self._view[REPLICASETS].by(BY_OWNER, workload.uid)]
        return any(self.ledger.pending(uid).spot for uid in owners)

    def _certain(self, looked: Collection[What]) -> bool:
        """A view that is not live now may lack anything; what was read live makes up for it."""
        return What.PODS in looked or all(store.synced for store in self._needed)

    def _assign(self, pod: AdmittedPod, marks: Marks) -> Assigned:
        patch = patch_for(pod, marks, rules=self._settings.rules, in_use=self._counts.rules_in_use)
        return Assigned(marks, patch)


def _owner_of(pod: AdmittedPod, request: Request) -> OwnerReference | None:
    """The ReplicaSet or StatefulSet that creates this pod. Bare, mirror and adopted pods have none when they are created."""
    if request.operation != "CREATE" or request.sub_resource or _MIRROR in pod.metadata.annotations:
        return None
    owner = pod.metadata.controller
    if owner is None or owner.kind not in ("ReplicaSet", "StatefulSet") or not owner.api_version.startswith("apps/"):
        return None
    return owner


def _behind(owner: OwnerReference, replica_set: ReplicaSet, looked: Collection[What]) -> Look | None:
    """What to read live where nobody should be missing, and yet a pod is created.

    An autoscaler raised the count just now, a pod left, or a creation that we admitted was refused.
    """
    what = next((what for what in What if what not in looked), None)
    return Look(what, replica_set.namespace, owner, replica_set) if what is not None else None


def _lacking(under_way: tuple[int, int], managed: Managed) -> tuple[CapacityClass, Why]:
    spot, on_demand = under_way
    wanted = ReplicaState(spot, on_demand, managed.target).next_class()
    if wanted is CapacityClass.ON_DEMAND and on_demand < managed.policy.share.min_on_demand:
        return wanted, Why.MINIMUM
    return wanted, Why.SHARE


def _limit(replica_set: ReplicaSet, managed: Managed) -> int:
    """How many pods this ReplicaSet should have. In a rollout it grows step by step to what the workload has."""
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
