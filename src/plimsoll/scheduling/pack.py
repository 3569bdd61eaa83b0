"""Where would these pods run, and on which new nodes?"""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.kube.types import Pod
from plimsoll.scheduling.model import ComingNode, Packing, Template
from plimsoll.scheduling.snapshot import Snapshot


def pack(
    snapshot: Snapshot,
    pods: Iterable[Pod],
    templates: Iterable[Template] = (),
    *,
    coming: Iterable[ComingNode] = (),
) -> Packing:
    """Place `pods` on the snapshot's nodes, on `coming` ones and on new nodes of `templates`. The snapshot stays as it is."""
    raise NotImplementedError
