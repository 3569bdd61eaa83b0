"""A last look at a plan: does the state that it ends in keep the rules?

Pods are placed by the thousand on the word of counters. Should a count ever be wrong, the plan must not leave the house: all amounts
and every rule that a finished state can be asked about are looked at once more, class by class, which costs next to nothing. Spreads
are not among them: pods that would otherwise stay unplaced may break those of others.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from plimsoll.scheduling.board import Board, RowIndex
from plimsoll.scheduling.neighbours import NoneThere
from plimsoll.scheduling.topology import Counter, Counts
from plimsoll.scheduling.views import View


def is_sound(board: Board, placed: Iterable[tuple[View, RowIndex]]) -> bool:
    """`placed` are the rows of the pods of each view; a view may come up several times."""
    if board.overdrawn():
        return False
    parts_of: dict[int, tuple[View, list[RowIndex]]] = {}
    parts_on: dict[int, tuple[View, list[RowIndex]]] = {}  # by grounds, which many classes share
    for view, rows in placed:
        parts_of.setdefault(view.pod_class.index, (view, []))[1].append(rows)
        parts_on.setdefault(id(view.grounds), (view, []))[1].append(rows)
    return all(view.static()[np.concatenate(parts)].all() for view, parts in parts_on.values()) and all(
        _keeps_its_rules(view, np.concatenate(parts)) for view, parts in parts_of.values() if view.minds_neighbours
    )


def _keeps_its_rules(view: View, rows: RowIndex) -> bool:
    counted = {id(counter) for counter in view.bumps}
    for rule in view.rules:
        if isinstance(rule, NoneThere) and (_there(rule.counter, rows) > (id(rule.counter) in counted)).any():
            return False
    if view.together is None:
        return True
    return all((_there(counter, rows) > 0).all() for counter in view.together.counters)


def _there(counter: Counter, rows: RowIndex) -> Counts:
    """How many are in the domain of each row; none where a row has no domain."""
    there: Counts = np.append(counter.by_domain(), 0)[counter.topology.domain[rows]]  # NOWHERE is -1: the last
    return there
