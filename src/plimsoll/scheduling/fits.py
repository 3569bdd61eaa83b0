"""Would this pod run on that node?"""

from __future__ import annotations

from plimsoll.kube.types import Pod
from plimsoll.scheduling.model import Refusal
from plimsoll.scheduling.snapshot import Snapshot


def fits(snapshot: Snapshot, pod: Pod, node_name: str) -> Refusal | None:
    """None if kube-scheduler could place the pod there now; else the first rule that says no."""
    raise NotImplementedError
