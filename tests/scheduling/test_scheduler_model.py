"""Nodes of the model behind headroom fill up, and are made larger with what is on them."""

from __future__ import annotations

import numpy as np
import pytest

from plimsoll.scheduling.pod_groups import Numbers
from plimsoll.scheduling.scheduler_model import Floats, Nodes

NOT_SHY = -1
SHY = 0  # of the one kind of which a node takes one


def nodes_of(*ways: list[float]) -> Nodes:
    """One column of nodes that all pods may go to; by way, how much CPU and memory each node has."""
    return Nodes(caps(*ways), np.zeros((1, len(ways[0])), np.float32), exclusions=1)


def caps(*ways: list[float]) -> Floats:
    return np.array([ways, ways], np.float32)


def choose(nodes: Nodes, *amounts: float, kind: int = NOT_SHY) -> list[int]:
    """By way: how many pods of these amounts, one after the other, find a place."""
    wants = np.repeat(np.array(amounts, np.float32), 2).reshape(len(amounts), 1, 2)
    nowhere_else: Numbers = np.zeros((len(amounts), 1), np.intp)
    placed: list[int] = nodes.choose(wants, nowhere_else, np.full((len(amounts), 1), kind))[:, 0].tolist()
    return placed


def test_pods_take_up_room() -> None:
    nodes = nodes_of([4.0, 4.0], [4.0, 8.0])
    assert choose(nodes, 3.0, 3.0, 3.0) == [2, 3]
    assert choose(nodes, 1.0, 1.0, 1.0) == [2, 3]


def test_shy_pods_share_no_node() -> None:
    nodes = nodes_of([4.0, 4.0])
    assert choose(nodes, 1.0, 1.0, 1.0, kind=SHY) == [2]
    assert choose(nodes, 1.0, kind=NOT_SHY) == [1]


@pytest.mark.parametrize("kind", [SHY, NOT_SHY])
def test_what_is_on_a_node_stays_when_it_is_as_large(kind: int) -> None:
    first, then = (3.0, 1.0), (2.0, 1.0, 1.0, 1.0)
    went_on = nodes_of([4.0, 4.0])
    choose(went_on, *first, kind=kind)
    taken_over = nodes_of([4.0, 4.0])
    choose(taken_over, *first, kind=kind)
    again = taken_over.enlarged(caps([4.0, 4.0], [4.0, 4.0]), np.array([0, 0]))
    assert choose(again, *then, kind=kind) == choose(went_on, *then, kind=kind) * 2


def test_a_larger_node_has_more_room_beside_what_is_on_it() -> None:
    nodes = nodes_of([4.0, 4.0], [6.0, 6.0])
    assert choose(nodes, 3.0, 3.0) == [2, 2]
    larger = nodes.enlarged(caps([4.0, 4.0], [5.0, 4.0], [6.0, 6.0], [6.0, 9.0]), np.array([0, 0, 1, 1]))
    assert choose(larger, 2.0, 2.0, 3.0) == [0, 1, 2, 3]
