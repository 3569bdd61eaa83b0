"""The state that the controller keeps between decisions: containers in back-off, observed leases, and lease gc.

It makes waiting cheap and fair. Safety does not depend on it, and a new process starts with an empty one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct

from plimsoll.controllers.allocation.inventory import Inventory
from plimsoll.controllers.allocation.session import Ended, State
from plimsoll.controllers.allocation.shortage import Shortage
from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.kube.lease_observation import LeaseObservation
from plimsoll.runtime.decision import Blocker


class RefusedContainer(Struct, frozen=True):
    """A container that was not served, and the state of the node at that time."""

    at: datetime
    generation: int
    taken: frozenset[str]
    inventory: Inventory | None
    shortage: Shortage


class NodeBlocker(Struct, frozen=True):
    """Why no session could start on a node, and since when."""

    blocker: Blocker
    since: datetime


class WaitQueue:
    """Waiting containers by node. `AllocationController` owns the only instance."""

    def __init__(self, wait: timedelta) -> None:
        self._wait = wait
        self._refused: dict[str, dict[str, RefusedContainer]] = {}
        self._observations: dict[str, LeaseObservation] = {}
        self._blocked: dict[str, NodeBlocker] = {}
        self._lost: dict[str, frozenset[str]] = {}
        self.nodes_at_last_gc: frozenset[str] | None = None

    def observation(self, node: str) -> LeaseObservation | None:
        return self._observations.get(node)

    def remember(self, ended: State, now: datetime) -> None:
        """Keep what an ended session observed."""
        if not isinstance(ended, Ended):
            return
        node = ended.task.node
        self._observations.pop(node, None)
        known = self._blocked.pop(node, None)
        if ended.blocker is not None:
            same = known is not None and known.blocker == ended.blocker
            self._blocked[node] = known if same and known is not None else NodeBlocker(ended.blocker, now)
        if ended.lost:
            self._lost[node] = ended.lost
        if ended.observation is not None:
            self._observations[node] = ended.observation
        refused = self._refused.setdefault(node, {})
        for one in ended.unserved:
            refused[one.container.uid] = RefusedContainer(
                now, one.container.metadata.generation, one.taken, ended.task.inventory, one.shortage
            )

    def until(
        self, node: str, container: WekaContainer, *, taken: frozenset[str], inventory: Inventory | None, now: datetime
    ) -> datetime | None:
        """When an unserved container is retried; None: now, because it was not refused or something changed since."""
        refused = self._refused.get(node, {}).get(container.uid)
        if refused is None:
            return None
        # An entry from the future means that the clock was set back.
        over = not refused.at <= now < refused.at + self._wait
        freed = bool(refused.taken - taken) or refused.inventory != inventory
        if over or freed or refused.generation != container.metadata.generation:
            return None
        return refused.at + self._wait

    def shortage(self, node: str, container: WekaContainer) -> Shortage | None:
        """What the container lacked when it was last tried."""
        refused = self._refused.get(node, {}).get(container.uid)
        return refused.shortage if refused is not None else None

    def blocked(self, node: str) -> NodeBlocker | None:
        return self._blocked.get(node)

    def lost(self, node: str) -> frozenset[str]:
        """UIDs of containers that a session found to have lost their allocation."""
        return self._lost.get(node, frozenset())

    def turn(self, node: str, waiting: Iterable[WekaContainer]) -> tuple[str, ...]:
        """UIDs in serving order: new containers by age, then unserved ones, longest wait first."""
        refused = self._refused.get(node, {})

        def rank(container: WekaContainer) -> tuple[bool, str, str, str]:
            before = refused.get(container.uid)
            when = before.at.isoformat() if before else ""
            return before is not None, when, str(container.metadata.creation_timestamp), container.title

        return tuple(container.uid for container in sorted(waiting, key=rank))

    def forget_all_but(self, node: str, uids: Iterable[str]) -> None:
        """Drop the entries of all other containers of the node: they are deleted or served."""
        kept = set(uids)
        refused = {uid: one for uid, one in self._refused.get(node, {}).items() if uid in kept}
        self._refused[node] = refused
        if not refused:
            del self._refused[node]

    def node_gone(self, node: str) -> None:
        for known in (self._refused, self._observations, self._blocked, self._lost):
            known.pop(node, None)
