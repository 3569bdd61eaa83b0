"""Rows of the board as nodes to make."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from plimsoll.kube.quantity import Quantity
from plimsoll.kube.types import Resources
from plimsoll.scheduling.board import Board
from plimsoll.scheduling.model import NewNode
from plimsoll.scheduling.offerings import cheapest, listed
from plimsoll.scheduling.requests import CPU, PODS, allocatable


class NewNodes:
    """Many nodes have the same candidates or hold as much: that is written down once."""

    def __init__(self, board: Board, sizes: dict[int, int]) -> None:
        self._board = board
        self._sizes = sizes
        self._held: list[list[int]] = board.held(slice(board.first_new, board.size)).T.tolist()  # by new node
        self._names: dict[tuple[int, int], tuple[str, ...]] = {}
        self._all_names: dict[int, tuple[str, ...]] = {}  # by lane
        self._requests: dict[tuple[int, ...], Resources] = {}
        self._daemons: dict[int, list[int]] = {}
        self._resources = list(enumerate(board.classes.resources))

    def make(self, rows: list[int], pods: list[tuple[str, ...]]) -> tuple[NewNode, ...]:
        """By row and the UIDs of its pods."""
        board, held, sizes = self._board, self._held, self._sizes
        offerings = board.offerings
        found = []
        for row, uids, (number, members) in zip(rows, pods, board.sizes_of(rows), strict=True):
            lane = offerings.lanes[number]
            candidates = self._names.get((number, members))
            if candidates is None:
                candidates = self._names[number, members] = self._candidates(number, members)
            index = sizes.get(row)
            if index is None:
                index = int(lane.members[cheapest(members)])
            offering = offerings.sold[index]
            template = offerings.templates[lane.template].name
            requested = self._requested(held[row - board.first_new], index)
            found.append(
                NewNode(board.names[row], template, offering.name, candidates, uids, requested, offering.price)
            )
        return tuple(found)

    def _candidates(self, number: int, members: int) -> tuple[str, ...]:
        offerings = self._board.offerings
        lane = offerings.lanes[number]
        everything = self._all_names.get(number)
        if everything is None:
            everything = tuple([offerings.sold[index].name for index in lane.members.tolist()])
            self._all_names[number] = everything
        lowest = members & -members
        if members + lowest == lane.everything + 1:  # all from the lowest on, as it mostly is
            return everything[lowest.bit_length() - 1 :]
        return tuple([everything[member] for member in listed(members)])

    def _requested(self, held: list[int], offering: int) -> Resources:
        """By pods and daemons together; nodes that hold as much share the answer."""
        key = (offering, *held)
        found = self._requests.get(key)
        if found is None:
            found = self._requests[key] = self._sum(held, offering)
        return found

    def _sum(self, held: list[int], offering: int) -> Resources:
        daemons = self._by_daemons(offering)
        requested = {}
        for index, name in self._resources:
            amount = held[index] + daemons[index]
            if amount and name != PODS:
                requested[name] = Quantity(amount if name == CPU else amount * 1000)
        return requested

    def _by_daemons(self, offering: int) -> list[int]:
        """What daemons hold: it has been taken off the capacity of the offering."""
        found = self._daemons.get(offering)
        if found is None:
            board = self._board
            given = allocatable(board.offerings.sold[offering].allocatable)
            whole = [given.get(name, 0) for name in board.classes.resources]
            left = board.offerings.caps[:, offering].tolist()
            found = self._daemons[offering] = [a - b for a, b in zip(whole, left, strict=True)]
        return found


def by_row(uids: list[str], rows: list[int], first: int) -> tuple[list[int], list[tuple[str, ...]]]:
    """The rows from `first` on that have pods, and the UIDs on each, in the order given."""
    at = np.array(rows, np.intp)
    order = at.argsort(kind="stable")
    order = order[at[order].searchsorted(first) :]
    starts = np.flatnonzero(np.diff(at[order], prepend=-1)).tolist()
    sorted_uids = [uids[place] for place in order.tolist()]
    bounds = pairwise((*starts, len(sorted_uids)))
    return at[order[starts]].tolist(), [tuple(sorted_uids[start:stop]) for start, stop in bounds]
