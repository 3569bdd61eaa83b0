"""From a Deployment to the values that its pods should carry: look, ask the algorithm, keep the pace, decide."""

from __future__ import annotations

from collections.abc import Iterable
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
from plimsoll.controllers.deletion_cost.values import MARK, removed
from plimsoll.controllers.deletion_cost.workload import Seen, pods_of, see
from plimsoll.controllers.deletion_cost.writes import Write, Writes, paced, patch, wanted_writes
from plimsoll.kube.cache.store import View
from plimsoll.kube.types.core import Deployment, KubeObject, Node, Pod, ReplicaSet
from plimsoll.kube.types.resources import BY_NODE, DEPLOYMENTS, NODES, PODS, REPLICASETS, Key, Resource
from plimsoll.runtime.decision import Decision, Event, Patch, Permission, Problem, Reason, Ref


class DeletionCostDecision(Decision, frozen=True, kw_only=True):
    """What to write, and the order of deletion that results, for each ReplicaSet that has pods."""

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

    # ── which Deployments does a change concern? ─────────────────────────────────────────────────────────────────────

    def keys(self, _: Resource[Any], changed: KubeObject, view: View) -> Iterable[Key]:
        match changed:
            case Deployment():
                return (DEPLOYMENTS.key(changed),) if ENABLED in changed.annotations else ()
            case ReplicaSet():
                return _keys_of_set(changed, view, marked=False)
            case Pod():
                return _keys_of_pod(changed, view)
            case Node():
                return {key for pod in view[PODS].by(BY_NODE, changed.name) for key in _keys_of_pod(pod, view)}
            case _:
                return ()

    # ── what should its pods carry? ──────────────────────────────────────────────────────────────────────────────────

    def decide(self, key: Key, view: View, now: datetime) -> DeletionCostDecision:
        deployment = view[DEPLOYMENTS].get(key.namespace, key.name)
        if deployment is None or deployment.terminating:
            return DeletionCostDecision(reason=Reason("Gone", f"{key} is gone or leaving"))
        try:
            settings = read_settings(
                deployment.annotations, self._algorithms.usable, lambda: self._algorithms.default_for(deployment)
            )
        except InvalidSettingsError as error:
            return _refuse(deployment, "InvalidAnnotations", self._explain(error, deployment))
        if not settings.enabled:
            return _clean_up(deployment, view)
        seen = see(deployment, settings, view, configured=self._settings, now=now)
        try:
            wanted = self._ask(seen)
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything, and must not stop other workloads
            what = f'the algorithm "{settings.type}" failed on {key}: {error!r}'
            return _refuse(deployment, "AlgorithmFailed", f"{what}. Its pods keep the values that they have.")
        writes = paced(seen, wanted, self._settings.max_rewrites_per_minute)
        orders = _orders(seen, writes)
        return DeletionCostDecision(
            reason=report.reason(seen, writes),
            actions=tuple(patch(write, seen) for write in writes.now),
            in_order=False,
            blockers=writes.blockers,
            requeue_after=writes.requeue_after,
            events=tuple(report.events(seen, writes)),
            problems=tuple(report.problems(seen, writes.costs)),
            gauges=tuple(report.gauges(seen, orders)),
            orders=orders,
        )

    def _ask(self, seen: Seen) -> list[list[Write]]:
        algorithm = self._algorithms.usable[seen.settings.type]
        terms = AssignSettings(seen.settings.spread_by, self._settings.ceiling, seen.now)
        return [
            wanted_writes(its, algorithm.assign(seen.deployment, its.replicas, seen.nodes, terms)) for its in seen.sets
        ]

    def _explain(self, error: InvalidSettingsError, deployment: Deployment) -> str:
        where = f"Deployment {deployment.namespace}/{deployment.name}"
        kinds = ", ".join(self._algorithms.names) or "none"
        failed = "".join(f'; "{name}" cannot be used: {why}' for name, why in self._algorithms.failures.items())
        return f"{where}: {error}. Types there are: {kinds}{failed}. Nothing is written until this is mended."


def _keys_of_pod(pod: Pod, view: View) -> Iterable[Key]:
    owner = pod.metadata.controller
    if owner is None or owner.kind != "ReplicaSet":
        return ()
    replica_set = view[REPLICASETS].get(pod.namespace, owner.name)
    if replica_set is None or replica_set.uid != owner.uid:
        return ()  # when it comes into view, it brings the Deployment's key along
    # A mark under a Deployment that says nothing: it was switched off while nobody looked.
    return _keys_of_set(replica_set, view, marked=MARK in pod.annotations)


def _keys_of_set(replica_set: ReplicaSet, view: View, *, marked: bool) -> Iterable[Key]:
    owner = replica_set.metadata.controller
    if owner is None or owner.kind != "Deployment":
        return ()
    deployment = view[DEPLOYMENTS].get(replica_set.namespace, owner.name)
    if deployment is None or deployment.uid != owner.uid:
        return ()
    return (DEPLOYMENTS.key(deployment),) if marked or asks_for_values(deployment.annotations) else ()


def _orders(seen: Seen, writes: Writes) -> tuple[DeletionOrder, ...]:
    zones = zones_of(seen.nodes, seen.settings.spread_by)
    company = pods_on_nodes(replica.pod for replica in seen.replicas)
    planned = writes.costs
    return tuple(
        order_of(its.replica_set, its.replicas, planned=planned, zones=zones, company=company, now=seen.now)
        for its in seen.sets
    )


def _clean_up(deployment: Deployment, view: View) -> DeletionCostDecision:
    why = Reason("SwitchedOff", f"{ENABLED} is not true on Deployment {deployment.namespace}/{deployment.name}")
    patches = tuple(
        Patch(Ref.to(PODS, pod), body, why, form="strategic", brief=True)
        for _, pods in pods_of(deployment, view)
        for pod in pods
        if (body := removed(pod)) is not None
    )
    if not patches:
        return DeletionCostDecision(reason=Reason("NotEnabled", why.message))
    message = f"taking back what we wrote on {len(patches)} pods: {why.message}"
    event = Event(report.about(deployment), "DeletionCostRemoved", message)
    return DeletionCostDecision(reason=why, actions=patches, in_order=False, events=(event,))


def _refuse(deployment: Deployment, code: str, message: str) -> DeletionCostDecision:
    problem = Problem(report.about(deployment), code, message)
    return DeletionCostDecision(reason=Reason(code, message), problems=(problem,))
