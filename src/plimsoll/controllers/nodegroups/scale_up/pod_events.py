"""Events on pending pods: TriggeredScaleUp and NotTriggerScaleUp, under the names that users of Cluster Autoscaler search for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from plimsoll.controllers.nodegroups.scale_up.scale_up import ScaleUpOrders
from plimsoll.kube.types.core import Pod
from plimsoll.kube.types.resources import PODS
from plimsoll.runtime.decision import Event, Ref

# The reasons why no group helps a pod change all the time; a pod gets a new text only this often.
REPEAT_AFTER = timedelta(minutes=10)
# Thousands of pods may be pending for one reason: so many events are recorded per minute, for the first pods by name.
MAX_PER_MINUTE = 60
MAX_TEXT = 1000  # an event's note holds 1,024 characters


class _Reported(Struct, frozen=True):
    reason: str
    text: str
    at: datetime


class PodEvents:
    """Part of the controller's state: what was last reported on each pending pod. A restart reports it once more."""

    def __init__(self) -> None:
        self._reported: dict[str, _Reported] = {}  # by the pod's UID
        self._minute: datetime | None = None
        self._count = 0

    def events(self, pods: Sequence[Pod], orders: ScaleUpOrders, now: datetime) -> list[Event]:
        """The events of one decision. One that was recorded before is repeated with the same text, which records nothing."""
        reported: dict[str, _Reported] = {}
        for pod in pods:
            before = self._reported.get(pod.uid)
            found = _report(pod, orders, now)
            if found is None or self._is_recent(before, found) or not self._may_record(now):
                found = before
            if found is not None:
                reported[pod.uid] = found
        self._reported = reported
        by_uid = {pod.uid: pod for pod in pods}
        return [Event(Ref.to(PODS, by_uid[uid]), one.reason, one.text) for uid, one in reported.items()]

    @staticmethod
    def _is_recent(before: _Reported | None, found: _Reported) -> bool:
        return before is not None and before.reason == found.reason and found.at - before.at < REPEAT_AFTER

    def _may_record(self, now: datetime) -> bool:
        if self._minute is None or not timedelta(0) <= now - self._minute < timedelta(minutes=1):
            self._minute, self._count = now, 0
        self._count += 1
        return self._count <= MAX_PER_MINUTE


def _report(pod: Pod, orders: ScaleUpOrders, now: datetime) -> _Reported | None:
    name = f"{pod.namespace}/{pod.name}"
    group = orders.plan.growing.get(name, "")
    if adding := orders.adding(group):
        return _Reported("TriggeredScaleUp", f"group {group} adds {adding} nodes: {orders.why(group)}", now)
    why = orders.plan.unplaced.get(name)
    if why is None:
        return None
    blockers = "; ".join(blocker.message for blocker in orders.blockers)
    text = "no group can add a node for this pod: " + "; ".join(part for part in (why, blockers) if part)
    return _Reported("NotTriggerScaleUp", text[:MAX_TEXT], now)
