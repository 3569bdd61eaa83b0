"""The annotations that admission writes on a pod: its class, the reason, the installation, and a token to recognise it."""

from __future__ import annotations

from enum import Enum

from plimsoll.controllers.placement.target import CapacityClass
from plimsoll.kube.types.meta import KubeObject

CLASS = "plimsoll.dev/placement-class"
REASON = "plimsoll.dev/placement-reason"
PLACED_BY = "plimsoll.dev/placed-by"  # the installation: the namespace of its operator
TOKEN = "plimsoll.dev/placement-token"  # noqa: S105 - identifies an admission; grants nothing


class PlacementReason(Enum):
    """Why a pod has its class: the value of `REASON`."""

    MINIMUM = "minimum"  # on-demand, because fewer replicas than min-on-demand are
    SHARE = "share"  # the class that the spot share lacks
    ORDINAL = "ordinal"  # the class of a StatefulSet pod's ordinal, which is also one that is short
    HELD_BACK = "spot-held-back"  # on-demand, because the workload backs off from spot
    APPROXIMATE = "approximate"  # decided without the leader; rebalancing corrects it if necessary


def assigned_class(pod: KubeObject) -> CapacityClass | None:
    """The class that admission assigned to a pod; None if admission did not see the pod."""
    try:
        return CapacityClass(pod.annotations[CLASS])
    except (KeyError, ValueError):
        return None
