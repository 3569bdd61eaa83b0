"""From a node to the tenure that serves those who wait on it: look, say what is wrong, and start a conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from msgspec import Struct

from plimsoll.controllers.allocation import report
from plimsoll.controllers.allocation.container_nodes import BY_AFFINITY, WEKA_CONTAINERS, nodes_of
from plimsoll.controllers.allocation.inventory import InvalidInventoryError, Inventory, read_inventory
from plimsoll.controllers.allocation.lease import lease_name
from plimsoll.controllers.allocation.lease_gc import Sweep, sweep
from plimsoll.controllers.allocation.plan import ask_of, lost
from plimsoll.controllers.allocation.protocol import step
from plimsoll.controllers.allocation.session import Opening, State, Task
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.controllers.allocation.usage import Ledger
from plimsoll.controllers.allocation.wait_queue import Desk
from plimsoll.kube.cache.store import View
from plimsoll.kube.leader_election import LeaseTimes
from plimsoll.kube.types.core import KubeObject, Node, Pod
from plimsoll.kube.types.resources import BY_NODE, LEASES, NODES, PODS, Key, Resource
from plimsoll.runtime.decision import Action, Blocker, Decision, Gauge, Permission, Problem, Reason, Ref, Transaction


class AllocationSettings(Struct, frozen=True):
    namespace: str = "weka-operator-system"
    ports_per_container: int = 100
    shortage_wait: timedelta = timedelta(seconds=30)
    times: LeaseTimes = LeaseTimes()


class AllocationDecision(Decision, frozen=True, kw_only=True):
    """Who waits on the node, in the order in which they are served, beside what follows from it."""

    waiting: tuple[str, ...] = ()  # namespace/name
    held_back: tuple[str, ...] = ()


class AllocationController:
    name: ClassVar[str] = "allocation"
    watches: ClassVar[tuple[Resource[Any], ...]] = (WEKA_CONTAINERS, NODES, PODS)

    def __init__(
        self,
        settings: AllocationSettings,
        nonce: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """
        nonce: of this process, that no other has. now: when a conversation ended; decisions get their time as an argument.
        """
        self._settings = settings
        self._nonce = nonce
        self._now = now
        self._desk = Desk(settings.shortage_wait)
        self._sweeping = Key("Lease", settings.namespace, "")

    @property
    def permissions(self) -> tuple[Permission, ...]:
        leases = ("create", "delete", "get", "list", "patch")
        return (
            Permission("weka.weka.io", "wekacontainers", "get"),
            Permission("weka.weka.io", "wekacontainers/status", "patch"),
            Permission("", "nodes", "get"),
            *(Permission("coordination.k8s.io", "leases", verb, self._settings.namespace) for verb in leases),
        )

    # ── which nodes does a change concern? ───────────────────────────────────────────────────────────────────────────

    def keys(self, _: Resource[Any], changed: KubeObject, view: View) -> Iterable[Key]:  # noqa: ARG002
        match changed:
            case WekaContainer():
                return [_key(name) for name in nodes_of(changed)]
            case Node():
                return (NODES.key(changed), self._sweeping)
            case Pod():
                # Only a pod that belongs to a container tells anything: that it runs although its container has nothing.
                return (_key(changed.spec.node_name),) if _runs_a_container(changed) else ()
            case _:
                return ()

    # ── what is to be done there? ────────────────────────────────────────────────────────────────────────────────────

    def decide(self, key: Key, view: View, now: datetime) -> AllocationDecision:
        if key == self._sweeping:
            return self._sweep(view)
        node = view[NODES].get("", key.name)
        containers = view[WEKA_CONTAINERS].by(BY_AFFINITY, key.name)
        inventory, invalid = _inventory(node)
        running = _running(view, key.name)
        missing = lost((*containers, *_homeless(view, running)), key.name, running)
        troubles = [report.lost_trouble(one, key.name) for one in missing]
        gone = {one.uid for one in missing}
        troubles += [
            trouble
            for one in containers
            if one.uid not in gone
            and (
                trouble := report.container_trouble(
                    one, key.name, node_exists=node is not None, invalid_inventory=invalid,
                    ports_per_container=self._settings.ports_per_container,
                )
            )
        ]  # fmt: skip
        ledger = Ledger(key.name, inventory or Inventory(), containers)
        by_uid = {trouble.container.uid: trouble for trouble in troubles}
        actions: list[Action] = [
            patch
            for one in (*containers, *(one for one in missing if one not in containers))
            if (patch := report.condition_patch(one, by_uid.get(one.uid), now)) is not None
        ]
        problems = [report.problem(trouble) for trouble in troubles if trouble.code != report.LOST]
        problems += report.holding_problems(key.name, containers, inventory, ledger)
        shown = Shown(key.name, actions, problems, _measures(key.name, ledger))
        if node is None:
            self._desk.node_gone(key.name)
            return shown.decision(Reason("NodeNotFound", f"node {key.name} is not there"), forget=not containers)
        waiting = [
            one
            for one in containers
            if one.uid not in by_uid and ask_of(one, key.name, self._settings.ports_per_container) is not None
        ]
        if missing:
            message = f"the status of {', '.join(_titles(missing))} is lost, so nothing is allocated on node {key.name}"
            events = tuple(report.held_up(waiting, missing, key.name))
            return shown.decision(
                Reason(report.LOST, message),
                blockers=(Blocker(report.LOST, message),),
                events=events,
                waiting=_titles(waiting),
            )
        return self._serve(node, inventory, waiting, ledger, running, shown, now)

    def _serve(  # noqa: PLR0917
        self,
        node: Node,
        inventory: Inventory | None,
        waiting: Sequence[WekaContainer],
        ledger: Ledger,
        running: frozenset[str],
        shown: Shown,
        now: datetime,
    ) -> AllocationDecision:
        self._desk.forget_all_but(node.name, (one.uid for one in waiting))
        held = {
            one.uid: until
            for one in waiting
            if (
                until := self._desk.until(node.name, one, taken=ledger.tokens(), inventory=inventory, now=now)
            ) is not None
        }  # fmt: skip
        due = [one for one in waiting if one.uid not in held]
        stale = [one for one in ledger.holdings if not one.committed]
        if not due and not stale:
            again = min((until - now for until in held.values()), default=None)
            reason = (
                Reason("Insufficient", f"{len(held)} containers wait until something on node {node.name} is freed")
                if held
                else Reason("Allocated", f"nobody waits on node {node.name}")
            )
            return shown.decision(reason, requeue_after=again, held_back=_titles(waiting))
        turn = self._desk.turn(node.name, due)
        first = next((one.title for one in due if one.uid == turn[0]), "") if turn else stale[0].holder
        task = Task(
            node.name, inventory, self._settings.namespace, lease_name(node.name), first, self._nonce, turn,
            held_back=frozenset(held), running=running, ports_per_container=self._settings.ports_per_container,
            times=self._settings.times, sighting=self._desk.sighting(node.name),
        )  # fmt: skip
        why = Reason("ContainersWaiting", f"{len(due)} containers wait on node {node.name}")
        if not due:
            why = Reason("StaleProposal", f"{len(stale)} proposals were left on node {node.name}")
        target = Ref(LEASES, task.lease_namespace, task.lease_name, "")
        converse = Transaction(target, Opening(task), step, why, ended=self._ended)
        return shown.decision(
            why, then=converse, requeue_after=self._settings.times.retry_period, waiting=_titles(due),
            held_back=_titles([one for one in waiting if one.uid in held]),
        )  # fmt: skip

    def _ended(self, state: State) -> None:
        self._desk.remember(state, self._now())

    # ── leases of nodes that are gone ────────────────────────────────────────────────────────────────────────────────

    def _sweep(self, view: View) -> AllocationDecision:
        nodes = frozenset(node.name for node in view[NODES])
        if self._desk.swept is not None and self._desk.swept <= nodes:
            self._desk.swept = nodes
            return AllocationDecision(reason=Reason("NoNodeGone", "no node has gone since leases were last looked at"))
        if not nodes:
            return AllocationDecision(
                reason=Reason("NoNodes", "no node is seen at all: nothing is concluded from that")
            )
        why = Reason("NodeGone", "leases of nodes that are gone are removed")
        target = Ref(LEASES, self._settings.namespace, "", "")
        conversation = Transaction(target, Sweep(self._settings.namespace, nodes), sweep, why, ended=self._swept)
        return AllocationDecision(reason=why, actions=(conversation,))

    def _swept(self, state: Sweep) -> None:
        if state.done:
            self._desk.swept = state.nodes


class Shown(Struct, frozen=True):
    """What a decision says whatever else it does."""

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
    """UIDs of the containers whose pods run on the node."""
    pods = [pod for pod in view[PODS].by(BY_NODE, node) if _runs_a_container(pod)]
    return frozenset(pod.metadata.controller.uid for pod in pods if pod.metadata.controller)


def _homeless(view: View, running: frozenset[str]) -> list[WekaContainer]:
    """Containers that run somewhere and say nowhere: their whole status, with its nodeAffinity, is lost."""
    return [one for one in view[WEKA_CONTAINERS] if not one.home and one.uid in running] if running else []


def _titles(containers: Iterable[WekaContainer]) -> tuple[str, ...]:
    return tuple(one.title for one in containers)


def _measures(node: str, ledger: Ledger) -> tuple[Gauge, ...]:
    if not ledger.holdings and not ledger.inventory.drives and not ledger.inventory.shared:
        return ()
    labels = {"node": node}
    shared = ledger.inventory.shared
    free = sum(ledger.free_gib(drive.serial, drive.capacity_gib) for drive in shared)
    return (
        Gauge("plimsoll_allocation_drives", len(ledger.inventory.drives), labels),
        Gauge("plimsoll_allocation_drives_free", len(ledger.free_drives()), labels),
        Gauge("plimsoll_allocation_shared_free_gib", free, labels),
        Gauge("plimsoll_allocation_proposals", sum(not one.committed for one in ledger.holdings), labels),
    )
