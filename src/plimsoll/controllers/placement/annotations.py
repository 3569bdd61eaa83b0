"""What admission writes on a pod: its class, why and from whom it got that class, and a token by which it is recognised."""

from __future__ import annotations

from enum import Enum

from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.kube.types.core import KubeObject

CLASS = "plimsoll.dev/placement-class"
REASON = "plimsoll.dev/placement-reason"
PLACED_BY = "plimsoll.dev/placed-by"  # the installation: the namespace of its operator
TOKEN = "plimsoll.dev/placement-token"  # noqa: S105 - it recognises an answer, and opens nothing


class Why(Enum):
    """The value of `REASON`."""

    MINIMUM = "minimum"  # on-demand, because fewer than the minimum are
    SHARE = "share"  # what the share asks for next
    ORDINAL = "ordinal"  # a StatefulSet's pod has the class of its place
    HELD_BACK = "spot-held-back"  # on-demand, because spot ran short for this workload
    APPROXIMATE = "approximate"  # answered without the leader: rebalancing mends it if it was wrong


def marked_class(pod: KubeObject) -> CapacityClass | None:
    """The class that admission gave a pod; None for one that it did not see."""
    try:
        return CapacityClass(pod.annotations[CLASS])
    except (KeyError, ValueError):
        return None
