"""Every world that can be reached, the shortest way first, and what must hold in each of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from plimsoll.controllers.allocation.types import WekaContainer
from plimsoll.controllers.allocation.usage import holdings_on
from tests.model.server import ABSENT
from tests.model.world import IDLE, NODE, Moves, Rules, Running, Store, World


class BrokenError(AssertionError):
    """Something that must always hold does not, with the shortest way there."""

    def __init__(self, what: str, way: list[str]) -> None:
        super().__init__(f"{what} after {len(way)} steps:\n" + "\n".join(f"  {n}. {s}" for n, s in enumerate(way, 1)))
        self.what = what
        self.steps = len(way)


@dataclass
class Explored:
    states: int = 0
    transitions: int = 0
    stores: set[Store] = field(default_factory=set)
    ends: list[World] = field(default_factory=list)  # worlds in which nothing more can happen


def explore(rules: Rules, *, at_most: int = 10_000_000, check: Callable[[World], None] = lambda _: None) -> Explored:
    """Breadth first; raises BrokenError with the shortest way to a violation."""
    start = rules.beginning()
    numbers: dict[World, int] = {start: 0}
    came_from: list[tuple[int, str]] = [(-1, "")]
    waiting = deque([start])
    judge = Judge(rules)
    found = Explored(states=1, stores={start.store})
    while waiting:
        world = waiting.popleft()
        here = numbers[world]
        stuck = True
        for label, following in rules.after(world):
            stuck = False
            found.transitions += 1
            if following.store is not world.store and (what := judge.violation(world.store, following.store)):
                raise BrokenError(what, [*_way(came_from, here), label])
            if following in numbers:
                continue
            numbers[following] = len(came_from)
            came_from.append((here, label))
            found.stores.add(following.store)
            check(following)
            waiting.append(following)
            if len(came_from) > at_most:
                raise AssertionError(f"more than {at_most} states")
        if stuck:
            found.ends.append(world)
    found.states = len(came_from)
    return found


def _way(came_from: list[tuple[int, str]], here: int) -> list[str]:
    labels = []
    while here:
        here, label = came_from[here]
        labels.append(label)
    return labels[::-1]


class Judge:
    """S1 and S2, judged once for each store and each change of it."""

    def __init__(self, rules: Rules) -> None:
        self._objects = rules.server.objects
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...]], str] = {}

    def violation(self, before: Store, after: Store) -> str:
        key = (before.containers, after.containers)
        if key not in self._known:
            self._known[key] = self._twice(after) or self._taken_away(before, after)
        return self._known[key]

    def _twice(self, store: Store) -> str:
        """S1: nothing is committed to two live containers."""
        holders: dict[str, str] = {}
        for one in self._containers(store):
            for holding in holdings_on(NODE, one):
                if not holding.committed:
                    continue
                things = [f"drive {serial}" for serial in holding.drives]
                things += [f"port {port}" for first, last in holding.port_ranges for port in range(first, last + 1)]
                for thing in things:
                    if holders.setdefault(thing, one.uid) != one.uid:
                        return f"S1: {thing} is committed to {holders[thing]} and {one.uid}"
        return ""

    def _taken_away(self, before: Store, after: Store) -> str:
        """S2: what a container has, it keeps for as long as it lives."""
        kept = {one.uid: one for one in self._containers(after)}
        for one in self._containers(before):
            if one.uid in kept:
                had, has = one.allocations, kept[one.uid].allocations
                same_ports = not had.weka_port or (had.weka_port, had.agent_port) == (has.weka_port, has.agent_port)
                if not set(had.drives or ()) <= set(has.drives or ()) or not same_ports:
                    return f"S2: {one.uid} had {had} and now has {has}"
        return ""

    def _containers(self, store: Store) -> list[WekaContainer]:
        return [self._objects.decoded(one, WekaContainer) for one in store.containers if one != ABSENT]


def recovers(rules: Rules, store: Store) -> bool:
    """L1 and L4 once faults stop: one fresh operator, alone, brings any store to its end and leaves no proposal behind."""
    world = World(store, (Running(life=100), *(Running(),) * (rules.operators - 1)), frozenset(), Moves(epochs=3))
    for _ in range(100):
        if rules.satisfied(world.store) and world.operators[0].state == IDLE:
            return True
        moves = [following for label, following in rules.after(world) if label.startswith("A ")]
        if not moves:
            return False
        world = moves[0]
    return False
