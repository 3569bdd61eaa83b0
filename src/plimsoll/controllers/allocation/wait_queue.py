"""What the operator remembers between two looks at a node: who was refused and when, and what lease it last saw.

It makes waiting cheap and fair; nothing that must be safe depends on it, and a new process starts without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct

from plimsoll.controllers.allocation.inventory import Inventory
from plimsoll.controllers.allocation.lease import Sighting
from plimsoll.controllers.allocation.session import Ended, State
from plimsoll.controllers.allocation.types import WekaContainer


class Refused(Struct, frozen=True):
    """A container that found too little, and what the node looked like then."""

    at: datetime
    generation: int
    taken: frozenset[str]
    inventory: Inventory | None


class Desk:
    """One operator's waiting room, by node."""

    def __init__(self, wait: timedelta) -> None:
        self._wait = wait
        self._refused: dict[str, dict[str, Refused]] = {}
        self._sightings: dict[str, Sighting] = {}
        self.swept: frozenset[str] | None = (
            None  # the nodes that there were when leases of gone nodes were last looked for
        )

    def sighting(self, node: str) -> Sighting | None:
        return self._sightings.get(node)

    def remember(self, ended: State, now: datetime) -> None:
        """A conversation is over: keep what it learned."""
        if not isinstance(ended, Ended):
            return
        node = ended.task.node
        self._sightings.pop(node, None)
        if ended.sighting is not None:
            self._sightings[node] = ended.sighting
        refused = self._refused.setdefault(node, {})
        for one in ended.refusals:
            refused[one.container.uid] = Refused(
                now, one.container.metadata.generation, one.taken, ended.task.inventory
            )

    def until(
        self, node: str, container: WekaContainer, *, taken: frozenset[str], inventory: Inventory | None, now: datetime
    ) -> datetime | None:
        """When a container that was refused may ask again; None: at once, because it was not, or because something changed."""
        refused = self._refused.get(node, {}).get(container.uid)
        if refused is None:
            return None
        # A refusal from the future was stamped before the clock was set back.
        over = not refused.at <= now < refused.at + self._wait
        freed = bool(refused.taken - taken) or refused.inventory != inventory
        if over or freed or refused.generation != container.metadata.generation:
            return None
        return refused.at + self._wait

    def turn(self, node: str, waiting: Iterable[WekaContainer]) -> tuple[str, ...]:
        """UIDs in the order in which they are served: those never refused by age, then those refused, the longest ago first."""
        refused = self._refused.get(node, {})

        def rank(container: WekaContainer) -> tuple[bool, str, str, str]:
            before = refused.get(container.uid)
            when = before.at.isoformat() if before else ""
            return before is not None, when, str(container.metadata.creation_timestamp), container.title

        return tuple(container.uid for container in sorted(waiting, key=rank))

    def forget_all_but(self, node: str, uids: Iterable[str]) -> None:
        """Those that are gone or served leave the room."""
        kept = set(uids)
        refused = {uid: one for uid, one in self._refused.get(node, {}).items() if uid in kept}
        self._refused[node] = refused
        if not refused:
            del self._refused[node]

    def node_gone(self, node: str) -> None:
        self._refused.pop(node, None)
        self._sightings.pop(node, None)
