"""The nodes of a snapshot as rows of a plan state, cached until a node changes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from plimsoll.scheduling.node_equivalence import NodeClasses, NodeTraits
from plimsoll.scheduling.snapshot import Snapshot

# Requests that use the same labels share the result; beyond so many label sets the cache is cleared.
_MOST_SETS_OF_LABELS = 64


class NodeRows:
    def __init__(self, snapshot: Snapshot) -> None:
        found = [(row, facts) for row, facts in enumerate(snapshot.nodes) if facts is not None]
        self.kept = np.array([row for row, _ in found], np.intp)  # by row of the plan state: the row of the snapshot
        self.state_rows = np.full(len(snapshot.nodes), -1, np.int64)
        self.state_rows[self.kept] = np.arange(len(found))
        self.node_traits = [NodeTraits(f.name, f.labels, f.taints, f.unschedulable) for _, f in found]
        self.names = [place.name for place in self.node_traits]
        self._node_classes: dict[frozenset[str], NodeClasses] = {}

    def node_classes(self, keys: Iterable[str]) -> NodeClasses:
        keys = frozenset(keys)
        if keys not in self._node_classes:
            if len(self._node_classes) >= _MOST_SETS_OF_LABELS:
                self._node_classes.clear()
            self._node_classes[keys] = NodeClasses(self.node_traits, keys)
        return self._node_classes[keys]


def node_rows(snapshot: Snapshot) -> NodeRows:
    if snapshot.node_rows is None:
        snapshot.node_rows = NodeRows(snapshot)
    return snapshot.node_rows
