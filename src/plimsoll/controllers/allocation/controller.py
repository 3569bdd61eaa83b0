"""The allocation controller. It decides per node: report problems, then start a session that serves the waiting containers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from msgspec import Struct

from plimsoll.controllers.allocation import report
from plimsoll.controllers.allocation.conditions import LOST
from plimsoll.controllers.allocation.container_nodes import BY_AFFINITY, WEKA_CLUSTERS, WEKA_CONTAINERS, nodes_of
from plimsoll.controllers.allocation.inventory import InvalidInventoryError, Inventory, read_inventory
from plimsoll.controllers.allocation.lease import lease_name
from plimsoll.controllers.allocation.lease_gc import LeaseGC, collect_leases
from plimsoll.controllers.allocation.plan import lost_containers, open_request
from plimsoll.controllers.allocation.protocol import step
from plimsoll.controllers.allocation.session import Starting, State, Task
from plimsoll.controllers.allocation.spec import is_allocatable
from plimsoll.controllers.allocation.types import Clusters, WekaCluster, WekaContainer
from plimsoll.controllers.allocation.usage import NodeUsage
from plimsoll.controllers.allocation.wait_queue import WaitQueue
from plimsoll.kube.cache.store import View
from plimsoll.kube.leader_election import LeaseTimes
from plimsoll.kube.types.core import Node, Pod
from plimsoll.kube.types.meta import KubeObject
from plimsoll.kube.types.resources import BY_NODE, LEASES, NODES, PODS, Key, Resource
from plimsoll.runtime.decision import (
    Action,
    Blocker,
    Decision,
    Gauge,
    Patch,
    Permission,
    Problem,
    Reason,
    Ref,
    Transaction,
)

# How long a lease may be held, or a container be without a node, before its condition says so: both happen all the time.
LEASE_HELD_GRACE = timedelta(seconds=10)
NO_NODE_GRACE = timedelta(seconds=30)


class AllocationSettings(Struct, frozen=True):
    namespace: str = "weka-operator-system"
    ports_per_container: int = 100
    shortage_wait: timedelta = timedelta(seconds=30)
    times: LeaseTimes = LeaseTimes()


class AllocationDecision(Decision, frozen=True, kw_only=True):
    """A decision about one node, with the containers that wait there."""

    waiting: tuple[str, ...] = ()  # namespace/name
    held_back: tuple[str, ...] = ()


class AllocationController:
    name: ClassVar[str] = "allocation"
    watches: ClassVar[tuple[Resource[Any], ...]] = (WEKA_CONTAINERS, WEKA_CLUSTERS, NODES, PODS)

    def __init__(
        self,
        settings: AllocationSettings,
        nonce: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """nonce: unique to this process. now: stamps the end of a session; decisions get their time as an argument."""
        self._settings = settings
        self._nonce = nonce
        self._now = now
        self._queue = WaitQueue(settings.shortage_wait)
        self._gc_key = Key("Lease", settings.namespace, "")

    @property
    def permissions(self) -> tuple[Permission, ...]:
        leases = ("create", "delete", "get", "list", "patch")
        return (
            Permission("weka.weka.io", "wekacontainers", "get"),
            Permission("weka.weka.io", "wekacontainers/status", "patch"),
            Permission("", "nodes", "get"),
            *(Permission("coordination.k8s.io", "leases", verb, self._settings.namespace) for verb in leases),
        )

    # ── from a changed object to node keys ───────────────────────────────────────────────────────────────────────────

    def keys(self, _: Resource[Any], changed: KubeObject, view: View) -> Iterable[Key]:
        match changed:
            case WekaContainer():
                return [_key(name) for name in nodes_of(changed)] or [WEKA_CONTAINERS.key(changed)]
            case WekaCluster():
                owned = (one for one in view[WEKA_CONTAINERS] if one.cluster == changed.uid)
                return {_key(name) for one in owned for name in nodes_of(one)}
            case Node():
                return (NODES.key(changed), self._gc_key)
            case Pod():
                # Only pods of containers matter: one that runs without an allocation may have lost its status.
                return (_key(changed.spec.node_name),) if _runs_a_container(changed) else ()
            case _:
                return ()

    # ── decisions ────────────────────────────────────────────────────────────────────────────────────────────────────

    def decide(self, key: Key, view: View, now: datetime) -> AllocationDecision:
        if key == self._gc_key:
            return self._collect_leases(view)
        if key.kind == WEKA_CONTAINERS.kind:
            return _without_node_yet(view[WEKA_CONTAINERS].get(key.namespace, key.name), now)
        node = view[NODES].get("", key.name)
        clusters = _clusters(view)
        containers = view[WEKA_CONTAINERS].by(BY_AFFINITY, key.name)
        inventory, invalid = _inventory(node)
        running = _running(view, key.name)
        missing = lost_containers(
            (*containers, *_without_node(view, running)), key.name, running, self._queue.lost(key.name)
        )
        container_problems = [report.lost_problem(one, key.name) for one in missing]
        gone = {one.uid for one in missing}
        container_problems += [
            problem
            for one in containers
            if one.uid not in gone
            and (
                problem := report.container_problem(
                    one, key.name, node_exists=node is not None, invalid_inventory=invalid,
                    ports_per_container=self._settings.ports_per_container, clusters=clusters,
                )
            )
        ]  # fmt: skip
        usage = NodeUsage(key.name, inventory or Inventory(), containers, clusters)
        by_uid = {problem.container.uid: problem for problem in container_problems}
        actions: list[Action] = [
            patch
            for one in (*containers, *(one for one in missing if one not in containers))
            if (patch := report.condition_patch(one, by_uid.get(one.uid), now)) is not None
        ]
        problems = [
            report.as_problem(problem)
            for problem in container_problems
            if not problem.expected and problem.code != LOST
        ]
        problems += report.holding_problems(key.name, containers, inventory, usage)
        node_report = NodeReport(key.name, actions, problems, _gauges(key.name, usage))
        if node is None:
            self._queue.node_gone(key.name)
            return node_report.decision(
                Reason("NodeNotFound", f"node {key.name} does not exist"), forget=not containers
            )
        waiting = [
            one
            for one in containers
            if one.uid not in by_uid
            and open_request(one, key.name, self._settings.ports_per_container, clusters) is not None
        ]
        if missing:
            message = f"nothing is allocated on node {key.name}: the status of {', '.join(_titles(missing))} was lost"
            events = tuple(report.held_up_events(waiting, missing, key.name))
            return node_report.decision(
                Reason(LOST, message),
                blockers=(Blocker(LOST, message),),
                events=events,
                waiting=_titles(waiting),
            )
        return self._serve(node, inventory, waiting, usage, running, clusters, node_report, now)

    def _serve(  # noqa: PLR0917
        self,
        node: Node,
        inventory: Inventory | None,
        waiting: Sequence[WekaContainer],
        usage: NodeUsage,
        running: frozenset[str],
        clusters: Clusters,
        node_report: NodeReport,
        now: datetime,
    ) -> AllocationDecision:
        self._queue.forget_all_but(node.name, (one.uid for one in waiting))
        held = {
            one.uid: until
            for one in waiting
            if (
                until := self._queue.until(node.name, one, taken=usage.tokens(), inventory=inventory, now=now)
            ) is not None
        }  # fmt: skip
        due = [one for one in waiting if one.uid not in held]
        node_report.actions.extend(self._waiting_conditions(node.name, waiting, now))
        stale = [one for one in usage.holdings if not one.committed]
        if not due and not stale:
            again = min((until - now for until in held.values()), default=None)
            reason = (
                Reason("Insufficient", f"{len(held)} containers wait for drives or ports on node {node.name}")
                if held
                else Reason("Allocated", f"no container waits on node {node.name}")
            )
            return node_report.decision(reason, requeue_after=again, held_back=_titles(waiting))
        turn = self._queue.turn(node.name, due)
        first = next((one.title for one in due if one.uid == turn[0]), "") if turn else stale[0].holder
        task = Task(
            node.name, inventory, self._settings.namespace, lease_name(node.name), first, self._nonce, turn,
            held_back=frozenset(held), running=running, ports_per_container=self._settings.ports_per_container,
            times=self._settings.times, observation=self._queue.observation(node.name),
            labels=tuple(sorted(node.labels.items())), clusters=clusters,
        )  # fmt: skip
        why = Reason("ContainersWaiting", f"{len(due)} containers wait on node {node.name}")
        if not due:
            why = Reason("StaleProposal", f"{len(stale)} proposals were left on node {node.name}")
        target = Ref(LEASES, task.lease_namespace, task.lease_name, "")
        run_transaction = Transaction(target, Starting(task), step, why, ended=self._ended)
        return node_report.decision(
            why, then=run_transaction, requeue_after=self._settings.times.retry_period, waiting=_titles(due),
            held_back=_titles([one for one in waiting if one.uid in held]),
        )  # fmt: skip

    def _waiting_conditions(self, node: str, waiting: Sequence[WekaContainer], now: datetime) -> Iterable[Patch]:
        """Say on each container why it still waits: what it lacks, or why no session can start on its node."""
        blocked = self._queue.blocked(node)
        if blocked is not None and blocked.blocker.code == "LeaseHeld" and now < blocked.since + LEASE_HELD_GRACE:
            blocked = None
        for one in waiting:
            shortage = self._queue.shortage(node, one)
            if blocked is not None:
                problem = report.waiting_problem(one, blocked.blocker.code, blocked.blocker.message)
            elif shortage is not None:
                problem = report.waiting_problem(one, shortage.code, shortage.message)
            else:
                continue
            if (patch := report.condition_patch(one, problem, now)) is not None:
                yield patch

    def _ended(self, state: State) -> None:
        self._queue.remember(state, self._now())

    # ── leases of deleted nodes ─────────────────────────────────────────────────────────────────────────────────────

    def _collect_leases(self, view: View) -> AllocationDecision:
        nodes = frozenset(node.name for node in view[NODES])
        if self._queue.nodes_at_last_gc is not None and self._queue.nodes_at_last_gc <= nodes:
            self._queue.nodes_at_last_gc = nodes
            return AllocationDecision(reason=Reason("NoNodeGone", "no node was deleted since the last lease gc"))
        if not nodes:
            return AllocationDecision(reason=Reason("NoNodes", "the cache has no nodes; leases are kept"))
        why = Reason("NodeGone", "delete the leases of deleted nodes")
        target = Ref(LEASES, self._settings.namespace, "", "")
        transaction = Transaction(
            target, LeaseGC(self._settings.namespace, nodes), collect_leases, why, ended=self._gc_ended
        )
        return AllocationDecision(reason=why, actions=(transaction,))

    def _gc_ended(self, state: LeaseGC) -> None:
        if state.done:
            self._queue.nodes_at_last_gc = state.nodes


class NodeReport(Struct, frozen=True):
    """The parts of a decision that do not depend on its outcome."""

    node: str
    actions: list[Action]
    problems: list[Problem]
    gauges: tuple[Gauge, ...]

    def decision(self, reason: Reason, *, then: Transaction | None = None, **fields: Any) -> AllocationDecision:
        actions = (*self.actions, *((then,) if then else ()))
        return AllocationDecision(
            reason=reason,
            actions=actions,
            in_order=False,
            problems=tuple(self.problems),
            gauges=self.gauges,
            **fields,
        )


def _without_node_yet(container: WekaContainer | None, now: datetime) -> AllocationDecision:
    """A container that no node is known for. Nothing is allocated; its condition says so after a while."""
    if container is None or container.node_name or container.terminating or not is_allocatable(container):
        return AllocationDecision(reason=Reason("NotWaiting", "the container needs no allocation here"))
    problem = report.no_node_problem(container)
    reason = Reason(problem.code, problem.message)
    created = container.metadata.creation_timestamp
    left = created + NO_NODE_GRACE - now if created is not None else timedelta()
    if left > timedelta():
        return AllocationDecision(reason=reason, requeue_after=left, waiting=(container.title,))
    patch = report.condition_patch(container, problem, now)
    return AllocationDecision(reason=reason, actions=(patch,) if patch is not None else (), waiting=(container.title,))


def _clusters(view: View) -> Clusters:
    return tuple(sorted((one.uid, one.status.ports) for one in view[WEKA_CLUSTERS]))


def _key(node: str) -> Key:
    return Key(NODES.kind, "", node)


def _inventory(node: Node | None) -> tuple[Inventory | None, str]:
    if node is None:
        return None, ""
    try:
        return read_inventory(node), ""
    except InvalidInventoryError as error:
        return None, f"node {node.name}: {error}"


def _runs_a_container(pod: Pod) -> bool:
    owner = pod.metadata.controller
    owned = owner is not None and owner.kind == "WekaContainer"
    return owned and bool(pod.spec.node_name) and not pod.finished and not pod.terminating


def _running(view: View, node: str) -> frozenset[str]:
    """UIDs of the containers with a pod on the node."""
    pods = [pod for pod in view[PODS].by(BY_NODE, node) if _runs_a_container(pod)]
    return frozenset(pod.metadata.controller.uid for pod in pods if pod.metadata.controller)


def _without_node(view: View, running: frozenset[str]) -> list[WekaContainer]:
    """Containers with a pod but without nodeAffinity: their whole status was lost."""
    return [one for one in view[WEKA_CONTAINERS] if not one.node_name and one.uid in running] if running else []


def _titles(containers: Iterable[WekaContainer]) -> tuple[str, ...]:
    return tuple(one.title for one in containers)


def _gauges(node: str, usage: NodeUsage) -> tuple[Gauge, ...]:
    if not usage.holdings and not usage.inventory.drives and not usage.inventory.shared:
        return ()
    labels = {"node": node}
    shared = usage.inventory.shared
    free = sum(usage.free_gib(drive.serial, drive.capacity_gib) for drive in shared)
    return (
        Gauge("plimsoll_allocation_drives", len(usage.inventory.drives), labels),
        Gauge("plimsoll_allocation_drives_free", len(usage.free_drives()), labels),
        Gauge("plimsoll_allocation_shared_free_gib", free, labels),
        Gauge("plimsoll_allocation_proposals", sum(not one.committed for one in usage.holdings), labels),
    )
