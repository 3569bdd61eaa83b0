"""Which of these nodes can go, one after the other?"""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.scheduling.model import Removal
from plimsoll.scheduling.snapshot import Snapshot


def removable(snapshot: Snapshot, node_names: Iterable[str]) -> list[Removal]:
    """For each node in turn: can all of its pods run elsewhere, given that the nodes before it are gone?

    A place that one answer uses is not free for the next, and no pod is sent to a node that an earlier answer removes. Pods of
    DaemonSets, mirror pods, terminating and finished ones need no place. The snapshot is left as it was.
    """
    raise NotImplementedError
