"""The deletion-cost controller: from a Deployment to the deletion costs of owned pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, ClassVar

from plimsoll.controllers.deletion_cost import report
from plimsoll.controllers.deletion_cost.algorithms.registry import Algorithms, AssignSettings
from plimsoll.controllers.deletion_cost.order import DeletionOrder, order_of, zones_of
from plimsoll.controllers.deletion_cost.replicaset_ranking import pods_on_nodes
from plimsoll.controllers.deletion_cost.spec import (
    ENABLED,
    DeletionCostSettings,
    InvalidSettingsError,
    asks_for_values,
    read_settings,
)
from plimsoll.controllers.deletion_cost.values import VALUE_RECORD, removed
from plimsoll.controllers.deletion_cost.workload import DeploymentState, active_pods, gather
from plimsoll.controllers.deletion_cost.writes import ValueWrite, limit_rewrites, patch, wanted_writes
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.apps import Deployment, ReplicaSet
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import BY_NODE, DEPLOYMENTS, NODES, PODS, REPLICASETS, Key, Resource
from plimsoll.runtime.decision import Decision, Event, Patch, Permission, Problem, Reason, Ref
from plimsoll.runtime.phrases import counted


class DeletionCostDecision(Decision, frozen=True, kw_only=True):
    """The values to write and the deletion order that results, for each ReplicaSet with pods."""

    orders: tuple[DeletionOrder, ...] = ()


class DeletionCostController:
    name: ClassVar[str] = "deletion-cost"
    watches: ClassVar[tuple[Resource[Any], ...]] = (DEPLOYMENTS, REPLICASETS, PODS, NODES)
    permissions: ClassVar[tuple[Permission, ...]] = (
        Permission("", "pods", "get"),
        Permission("", "pods", "patch"),
    )

    def __init__(self, settings: DeletionCostSettings, algorithms: Algorithms) -> None:
        self._settings = settings
        self._algorithms = algorithms

    # ── the keys of a change ─────────────────────────────────────────────────────────────────────────────────────────

    def keys(self, _: Resource[Any], changed: KubeObject, view: View) -> Iterable[Key]:
        match changed:
            case Deployment():
                return (
                    (DEPLOYMENTS.key(changed),)
                    if ENABLED in changed.annotations or self._is_ordered(changed, view)
                    else ()
                )
            case ReplicaSet():
                return self._keys_of_set(changed, view, has_record=False)
            case Pod():
                return self._keys_of_pod(changed, view)
            case Node():
                return {key for pod in view[PODS].by(BY_NODE, changed.name) for key in self._keys_of_pod(pod, view)}
            case _:
                return ()

    def _is_ordered(self, deployment: Deployment, view: View) -> bool:
        """Whether the pods of this Deployment get values; cheap, because it runs for every pod that changes."""
        if ENABLED in deployment.annotations:
            return asks_for_values(deployment.annotations)
        return self._algorithms.implied_for(deployment, view) is not None

    def _keys_of_pod(self, pod: Pod, view: View) -> Iterable[Key]:
        owner = pod.metadata.controller
        if owner is None or owner.kind != "ReplicaSet":
            return ()
        replica_set = view[REPLICASETS].get(pod.namespace, owner.name)
        if replica_set is None or replica_set.uid != owner.uid:
            return ()  # when it appears in the view, it yields the key of the Deployment
        # A record under a Deployment without annotations: the user removed them while the operator was down.
        return self._keys_of_set(replica_set, view, has_record=VALUE_RECORD in pod.annotations)

    def _keys_of_set(self, replica_set: ReplicaSet, view: View, *, has_record: bool) -> Iterable[Key]:
        owner = replica_set.metadata.controller
        if owner is None or owner.kind != "Deployment":
            return ()
        deployment = view[DEPLOYMENTS].get(replica_set.namespace, owner.name)
        if deployment is None or deployment.uid != owner.uid:
            return ()
        return (DEPLOYMENTS.key(deployment),) if has_record or self._is_ordered(deployment, view) else ()

    # ── the decision ─────────────────────────────────────────────────────────────────────────────────────────────────

    def decide(self, key: Key, view: View, now: datetime) -> DeletionCostDecision:
        deployment = view[DEPLOYMENTS].get(key.namespace, key.name)
        if deployment is None or deployment.terminating:
            return DeletionCostDecision(reason=Reason("Gone", f"{key} is gone or being deleted"))
        try:
            settings = read_settings(
                deployment.annotations,
                self._algorithms.usable,
                lambda: self._algorithms.default_for(deployment),
                lambda: self._algorithms.implied_for(deployment, view),
            )
        except InvalidSettingsError as error:
            return _reject(deployment, "InvalidAnnotations", self._explain(error, deployment))
        if not settings.enabled:
            return _clean_up(deployment, view)
        state = gather(deployment, settings, view, configured=self._settings, now=now)
        try:
            wanted = self._assign(state)
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything, and must not stop other workloads
            what = f'the algorithm "{settings.type}" failed on {key}: {error!r}'
            return _reject(deployment, "AlgorithmFailed", f"{what}. Its pods keep their values.")
        writes = limit_rewrites(state, wanted, self._settings.max_rewrites_per_minute)
        orders = _orders(state, writes.costs)
        before = _orders(state, {}) if writes.now else orders
        return DeletionCostDecision(
            reason=report.reason(state, writes),
            actions=tuple(patch(write, state) for write in writes.now),
            in_order=False,
            blockers=writes.blockers,
            requeue_after=writes.requeue_after,
            events=tuple(report.events(state, writes, before, orders)),
            problems=tuple(report.problems(state, writes.costs)),
            gauges=tuple(report.gauges(state, orders)),
            orders=orders,
        )

    def _assign(self, state: DeploymentState) -> list[list[ValueWrite]]:
        algorithm = self._algorithms.usable[state.settings.type]
        terms = AssignSettings(state.settings.spread_by, self._settings.ceiling, state.now)
        return [
            wanted_writes(owned, algorithm.assign(state.deployment, owned.replicas, state.nodes, terms))
            for owned in state.sets
        ]

    def _explain(self, error: InvalidSettingsError, deployment: Deployment) -> str:
        where = f"Deployment {deployment.namespace}/{deployment.name}"
        kinds = ", ".join(self._algorithms.names) or "none"
        failed = "".join(f'; "{name}" cannot be used: {why}' for name, why in self._algorithms.failures.items())
        return f"{where}: {error}. Available types: {kinds}{failed}. Nothing is written until this is fixed."


def _orders(state: DeploymentState, planned: Mapping[str, int]) -> tuple[DeletionOrder, ...]:
    zones = zones_of(state.nodes, state.settings.spread_by)
    pods_by_node = pods_on_nodes(replica.pod for replica in state.replicas)
    return tuple(
        order_of(
            owned.replica_set, owned.replicas, planned=planned, zones=zones, pods_by_node=pods_by_node, now=state.now
        )
        for owned in state.sets
    )


def _clean_up(deployment: Deployment, view: View) -> DeletionCostDecision:
    where = f"Deployment {deployment.namespace}/{deployment.name}"
    why = Reason("SwitchedOff", f"{ENABLED} is not true on {where}, and placement does not ask for an order")
    patches = tuple(
        Patch(Ref.to(PODS, pod), body, why, form="strategic", brief=True)
        for _, pods in active_pods(deployment, view)
        for pod in pods
        if (body := removed(pod)) is not None
    )
    if not patches:
        return DeletionCostDecision(reason=Reason("NotEnabled", why.message))
    message = f"removing the deletion cost of {counted(len(patches), 'pod')}: {why.message}"
    event = Event(report.about(deployment), "DeletionCostRemoved", message)
    return DeletionCostDecision(reason=why, actions=patches, in_order=False, events=(event,))


def _reject(deployment: Deployment, code: str, message: str) -> DeletionCostDecision:
    problem = Problem(report.about(deployment), code, message)
    return DeletionCostDecision(reason=Reason(code, message), problems=(problem,))
